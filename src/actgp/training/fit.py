"""Fitting: hyper-parameters and variational parameters by gradient ascent on a model's own objective."""

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from linear_operator.utils.errors import NanError, NotPSDError
from linear_operator.utils.warnings import NumericalWarning
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, minimize
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from actgp import checks
from actgp.likelihoods import targets
from actgp.models import GPR, SGPR, SVGP
from actgp.training.progress import progress_bar

PATIENCE_FOR_NONFINITE = 20

NOT_DECOMPOSED = (NanError, NotPSDError)  # what gpytorch raises for a covariance that overflowed
Stopped = Literal["converged", "steps", "stalled"]


@dataclass(frozen=True)
class FitResult:
    """What fitting did.

    Attributes:
        objectives: The objective at each step: log evidence, bound, or the minibatch's estimate of it.
        stopped: Why it ended: the objective converged, the steps were used up, or no further step improved it.
        skipped: How many minibatch steps were skipped because their objective or gradient was not finite.
        seconds: How long it took.
    """

    objectives: tuple[float, ...]
    stopped: Stopped
    skipped: int
    seconds: float


@torch.enable_grad()
def fit(
    model: GPR | SGPR | SVGP,
    X: Tensor | None = None,
    y: Tensor | None = None,
    *,
    num_steps: int | None = None,
    learning_rate: float = 0.01,
    batch_size: int = 256,
    generator: torch.Generator | None = None,
    progress: bool = True,
) -> FitResult:
    """Maximises the log evidence (GPR), the collapsed bound (SGPR) or the ELBO (SVGP).

    GPR and SGPR hold their data and have an exact objective: L-BFGS, for `num_steps` (200) or until it converges. SVGP
    takes X and y: Adam on minibatches for `num_steps` (2,000), its rate annealed to zero. An interrupt leaves the model
    as it was after the last step.

    Args:
        model: The model, changed in place.
        X: Inputs, for SVGP only.
        y: Targets, for SVGP only.
        num_steps: How many steps at most.
        learning_rate: Adam's first rate, for SVGP only.
        batch_size: Rows in a minibatch, for SVGP only.
        generator: Shuffles the minibatches, and samples where the likelihood needs it.
        progress: Whether to show a progress bar, on a terminal.
    """
    if isinstance(model, GPR | SGPR):
        if X is not None or y is not None:
            raise ValueError(
                f"{type(model).__name__} was given its data when it was built, got X or y again; leave them out"
            )
        steps = 200 if num_steps is None else checks.integer(num_steps, "num_steps", minimum=1)
        return _fit_exactly(model, steps, progress)
    if not isinstance(model, SVGP):
        raise TypeError(f"model must be a GPR, SGPR or SVGP, got {type(model).__name__}; build one of those")
    if X is None or y is None:
        raise ValueError("SVGP is trained on minibatches of X and y, got none; call fit(model, X, y)")
    steps = 2_000 if num_steps is None else checks.integer(num_steps, "num_steps", minimum=1)
    checks.positive(learning_rate, "learning_rate")
    batch_size = checks.integer(batch_size, "batch_size", minimum=1)
    model.check_inputs(X)
    y = targets(model.likelihood, y, len(X), model.num_outputs, X.dtype)
    batches = _batches(X, y, batch_size, generator)
    return _fit_minibatches(model, batches, len(X), steps, learning_rate, generator, progress)


def _fit_exactly(model: GPR | SGPR, num_steps: int, progress: bool) -> FitResult:
    """SciPy's L-BFGS on a deterministic objective; ends, also when interrupted, at the last step it accepted."""
    start = time.perf_counter()
    objective: Callable[[], Tensor] = model.log_evidence if isinstance(model, GPR) else model.elbo
    parameters = _trainable(model)
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
        with progress_bar(f"fit {type(model).__name__}", num_steps, show=progress) as report:

            def record(intermediate_result: OptimizeResult) -> None:
                nonlocal accepted
                accepted = intermediate_result.x.copy()
                objectives.append(-float(intermediate_result.fun))
                report(objectives[-1])

            result = minimize(
                guarded, accepted, jac=True, method="L-BFGS-B", callback=record, options={"maxiter": num_steps}
            )
    finally:
        assign(accepted)
        model.eval()
    stopped: tuple[Stopped, ...] = ("converged", "steps", "stalled")  # by SciPy's status
    return FitResult(tuple(objectives), stopped[result.status], 0, time.perf_counter() - start)


def _fit_minibatches(
    model: SVGP,
    batches: Iterator[tuple[Tensor, Tensor]],
    num_data: int,
    num_steps: int,
    learning_rate: float,
    generator: torch.Generator | None,
    progress: bool,
) -> FitResult:
    """Adam with a rate annealed along a cosine; a step that is not finite is skipped and counted."""
    start = time.perf_counter()
    parameters = _trainable(model)
    optimiser = torch.optim.Adam(parameters, lr=learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=num_steps)
    model.train()
    objectives: list[float] = []
    skipped = skipped_in_a_row = 0
    with progress_bar(f"fit {type(model).__name__}", num_steps, show=progress) as report:
        for _ in range(num_steps):
            X, y = next(batches)
            optimiser.zero_grad()
            loss = -model.elbo(X, y, num_data, generator=generator)
            loss.backward()
            norm = torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
            if torch.isfinite(loss) and torch.isfinite(norm):
                optimiser.step()
                schedule.step()
                skipped_in_a_row = 0
            else:
                skipped, skipped_in_a_row = skipped + 1, skipped_in_a_row + 1
            if skipped_in_a_row > PATIENCE_FOR_NONFINITE:
                raise ArithmeticError(
                    f"expected a finite objective, got {skipped_in_a_row} steps in a row without one; "
                    "standardise X and y, or lower learning_rate"
                )
            objectives.append(-loss.item())
            report(objectives[-1])
    model.eval()
    return FitResult(tuple(objectives), "steps", skipped, time.perf_counter() - start)


def _trainable(model: torch.nn.Module) -> list[torch.nn.Parameter]:
    parameters = [p for p in model.parameters() if p.requires_grad]
    if not parameters:
        raise ValueError("a model must have parameters to fit, got none that requires a gradient; free some of them")
    return parameters


def _batches(
    X: Tensor, y: Tensor, batch_size: int, generator: torch.Generator | None
) -> Iterator[tuple[Tensor, Tensor]]:
    """Minibatches without end, the rows in a new order in each pass."""
    while True:
        for rows in torch.randperm(len(X), generator=generator).split(batch_size):
            yield X[rows], y[rows]
