"""L-BFGS on an objective without noise: SciPy's, for parameters that are torch's."""

import importlib
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from linear_operator.utils.errors import NanError, NotPSDError
from linear_operator.utils.warnings import NumericalWarning
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

NOT_DECOMPOSED = (NanError, NotPSDError)  # what gpytorch raises for a covariance that overflowed
TOLERANCE = 2.2e-9
BY_STATUS = ("converged", "steps", "stalled")


def maximise(
    parameters: Sequence[Tensor],
    objective: Callable[[], Tensor],
    num_steps: int,
    report: Callable[[float], None] = lambda _: None,
    tolerance: float = TOLERANCE,
) -> str:
    """Changes parameters in place until the objective converges; ends, also when interrupted, at the last good step.

    Args:
        parameters: What is changed; each is a leaf that requires a gradient.
        objective: Of the parameters as they are.
        num_steps: At most so many.
        report: Called with the objective after each step.
        tolerance: It has converged where a step gains less than this part of it.

    Returns:
        "converged", "steps" when they are used up, or "stalled" when no step improves it.
    """
    accepted = parameters_to_vector(parameters).detach().double().cpu().numpy()

    def assign(x: NDArray[np.float64]) -> None:
        vector_to_parameters(torch.from_numpy(x).to(parameters[0]), parameters)

    def evaluate() -> tuple[float, NDArray[np.float64]]:
        for p in parameters:
            p.grad = None
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

    def accept(intermediate_result: Any) -> None:
        nonlocal accepted
        accepted = intermediate_result.x.copy()
        report(-float(intermediate_result.fun))

    options = {"maxiter": num_steps, "ftol": tolerance}
    optimize = importlib.import_module("scipy.optimize")  # only now
    try:
        result = optimize.minimize(guarded, accepted, jac=True, method="L-BFGS-B", callback=accept, options=options)
    finally:
        assign(accepted)
    return BY_STATUS[result.status]
