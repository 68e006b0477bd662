"""GPR and SGPR: an objective without noise, by L-BFGS."""

import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import cast

from torch import Tensor

from actgp.models import GPR, SGPR
from actgp.training.lbfgs import maximise
from actgp.training.objectives import log_prior
from actgp.training.progress import progress_bar
from actgp.training.recipe import FitResult, Stopped


def fit_exactly(model: GPR | SGPR, num_steps: int, progress: bool) -> FitResult:
    """Maximises the log evidence, or its bound, and what priors there are."""
    start = time.perf_counter()
    evidence: Callable[[], Tensor] = model.log_evidence if isinstance(model, GPR) else model.elbo
    parameters = [p for p in model.parameters() if p.requires_grad]
    objectives: list[float] = []
    model.train()
    try:
        bar = progress_bar(f"fit {type(model).__name__}", num_steps) if progress else nullcontext(lambda *_: None)
        with bar as report:

            def record(objective: float) -> None:
                objectives.append(objective)
                report(objective)

            stopped = maximise(
                parameters, lambda: evidence() + log_prior(model).to(parameters[0].device), num_steps, record
            )
    finally:
        model.eval()
    return FitResult(tuple(objectives), cast(Stopped, stopped), 0, time.perf_counter() - start)
