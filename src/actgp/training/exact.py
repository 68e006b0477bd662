"""GPR and SGPR: an objective without noise, by L-BFGS."""

import importlib
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from linear_operator.utils.errors import NanError, NotPSDError
from linear_operator.utils.warnings import NumericalWarning
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from actgp.models import GPR, SGPR
from actgp.training.objectives import log_prior
from actgp.training.progress import progress_bar
from actgp.training.recipe import FitResult, Stopped

NOT_DECOMPOSED = (NanError, NotPSDError)  # what gpytorch raises for a covariance that overflowed


def fit_exactly(model: GPR | SGPR, num_steps: int, progress: bool) -> FitResult:
    """SciPy's L-BFGS on a deterministic objective; ends, also when interrupted, at the last step it accepted."""
    start = time.perf_counter()
    evidence: Callable[[], Tensor] = model.log_evidence if isinstance(model, GPR) else model.elbo

    def objective() -> Tensor:
        return evidence() + log_prior(model).to(parameters[0].device)

    parameters = [p for p in model.parameters() if p.requires_grad]
    model.train()
    objectives: list[float] = []
    accepted = parameters_to_vector(parameters).detach().double().cpu().numpy()

    def assign(x: NDArray[np.float64]) -> None:
        vector_to_parameters(torch.from_numpy(x).to(parameters[0]), parameters)

    def evaluate() -> tuple[float, NDArray[np.float64]]:
        model.zero_grad()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NumericalWarning)  # the line search may try what it does not keep
            loss = -objective()
        loss.backward()
        gradient = torch.cat([torch.zeros_like(p).ravel() if p.grad is None else p.grad.ravel() for p in parameters])
        return loss.item(), gradient.double().cpu().numpy()

    try:
        loss, gradient = evaluate()
    except NOT_DECOMPOSED:
        loss, gradient = np.inf, np.zeros_like(accepted)
    if not (np.isfinite(loss) and np.isfinite(gradient).all()):
        raise ValueError(
            "the objective must be finite at the start, got one that is not; "
            "standardise X and y, or start from smaller hyper-parameters"
        )

    def guarded(x: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """The loss, or where it is not finite one so much worse than the last that the line search turns back."""
        nonlocal loss, gradient
        assign(x)
        try:
            new_loss, new_gradient = evaluate()
        except (ValueError, *NOT_DECOMPOSED):
            new_loss, new_gradient = np.inf, gradient
        if not (np.isfinite(new_loss) and np.isfinite(new_gradient).all()):
            return loss + 10 * (1 + abs(loss)), gradient
        loss, gradient = new_loss, new_gradient
        return loss, gradient

    try:
        title = f"fit {type(model).__name__}"
        with progress_bar(title, num_steps) if progress else nullcontext(lambda *_: None) as report:

            def record(intermediate_result: Any) -> None:
                nonlocal accepted
                accepted = intermediate_result.x.copy()
                objectives.append(-float(intermediate_result.fun))
                report(objectives[-1])

            optimize = importlib.import_module("scipy.optimize")  # only now
            result = optimize.minimize(
                guarded, accepted, jac=True, method="L-BFGS-B", callback=record, options={"maxiter": num_steps}
            )
    finally:
        assign(accepted)
        model.eval()
    stopped: tuple[Stopped, ...] = ("converged", "steps", "stalled")  # by SciPy's status
    return FitResult(tuple(objectives), stopped[result.status], 0, time.perf_counter() - start)
