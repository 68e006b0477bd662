"""Bayesian optimisation with a deep GP, beside BoTorch's own models: the regret curves of docs/optimisation.md.

python -m benchmarks.optimisation [--seeds 10]     (results/optimisation.jsonl; run again, it does what is missing)
python -m benchmarks.optimisation --times          (adds what fits and posteriors cost)
python -m benchmarks.optimisation --report         (writes table and curves from what is there)

Each run begins with Sobol points, the same for all models, and adds one evaluation at a time, where log expected
improvement is largest. There is no noise. Models are made anew after each evaluation; the deep GP takes over the
parameters that it had, and so does VBLL but for some fresh starts; `SingleTaskGP` is fitted as BoTorch fits it. All
functions and models have their first seed before any has its second.
"""

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any, TypeVar

import torch
import typer
from botorch.acquisition import LogExpectedImprovement, qLogExpectedImprovement
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from botorch.test_functions import Ackley, Hartmann, Michalewicz
from botorch_community.models.vblls import VBLLModel
from gpytorch.mlls import ExactMarginalLogLikelihood
from rich.console import Console
from torch import Tensor
from torch.quasirandom import SobolEngine

from actgp.botorch import DeepGPModel
from actgp_experiments.store import Record, Store, revision
from benchmarks.regret import write_regrets

T = TypeVar("T")
RESULTS = Path(__file__).parents[1] / "results/optimisation.jsonl"
DOCS = Path(__file__).parents[1] / "docs"
REVISION = revision()  # of the code as it was loaded
RESTARTS, RAW, STEPS = 4, 256, 50  # of the optimiser of acquisition functions


@dataclass(frozen=True)
class Problem:
    """A function on the unit cube, to be minimised.

    Attributes:
        input_dim: D.
        function: [N, D] to [N].
        least: Its minimum.
    """

    input_dim: int
    function: Callable[[Tensor], Tensor]
    least: float


def of_botorch(problem: Any) -> Problem:
    """One of BoTorch's test functions."""
    low, high = problem.bounds.double()
    return Problem(problem.dim, lambda X: problem(low + (high - low) * X), float(problem.optimal_value))


def _chirp(X: Tensor) -> Tensor:
    """Waves that shorten tenfold along each input: no lengthscale suits all of it."""
    return (torch.sin(2 * math.pi / (X + 0.15)) * (1 - 0.5 * X)).mean(-1)


def _least_of_chirp() -> float:
    return _chirp(torch.linspace(0, 1, 100_001, dtype=torch.float64)[:, None]).min().item()


PROBLEMS: dict[str, Problem] = {
    "Hartmann-6": of_botorch(Hartmann(dim=6)),
    # on part of its usual domain: 60 points of that see a plain with ripples, and the middle of the cube is its minimum
    "Ackley-10": of_botorch(Ackley(dim=10, bounds=[(-5.0, 10.0)] * 10)),
    "Michalewicz-5": of_botorch(Michalewicz(dim=5)),
    "chirp-3": Problem(3, _chirp, _least_of_chirp()),
}


class Exact:
    """BoTorch's `SingleTaskGP`."""

    def __call__(self, X: Tensor, y: Tensor) -> AcquisitionFunction:
        """Fits, and returns what is to be maximised next, for values y to be maximised."""
        model = SingleTaskGP(X, y)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        return LogExpectedImprovement(model, y.max())


class Deep:
    """`DeepGPModel`, as a Gaussian.

    Args:
        fresh: After so many evaluations it begins anew; never, if None.
        options: Of `DeepGPModel`.
    """

    def __init__(self, fresh: int | None = None, **options: Any) -> None:
        self.last: DeepGPModel | None = None
        self.fresh, self.options = fresh, options

    def model(self, X: Tensor, y: Tensor) -> DeepGPModel:
        """Fits, from where it was."""
        model = DeepGPModel(X, y, **self.options)
        anew = self.last is None or (self.fresh is not None and len(X) % self.fresh == 0)
        self.last = (model if anew else model.warm_start(self.last)).fit()
        return self.last

    def __call__(self, X: Tensor, y: Tensor) -> AcquisitionFunction:
        """Fits, and returns what is to be maximised next, for values y to be maximised."""
        return LogExpectedImprovement(self.model(X, y).moment_matched(), y.max())


class DeepFunctions(Deep):
    """`DeepGPModel`, as functions."""

    def __call__(self, X: Tensor, y: Tensor) -> AcquisitionFunction:
        return qLogExpectedImprovement(self.model(X, y), y.max())


class LastLayer:
    """VBLL, a network with a Bayesian last layer, as its authors have written it for BoTorch.

    Its own settings, but for a limit to its epochs (10,000 by default, which is half a minute), and with the features
    of the last model where it is not a fresh start: what its paper calls feature reuse.
    """

    def __init__(self) -> None:
        self.last: VBLLModel | None = None

    def __call__(self, X: Tensor, y: Tensor) -> AcquisitionFunction:
        """Fits, and returns what is to be maximised next, for values y to be maximised."""
        y = (y - y.mean()) / y.std()
        fresh = self.last is None or len(X) % 20 == 0
        model = VBLLModel(in_features=X.shape[-1], device="cpu")
        model.fit(
            X,
            y,
            optimization_settings={"num_epochs": 3000 if fresh else 300},
            initialization_params=None if fresh else self.last.model.state_dict(),
        )
        self.last = model
        return LogExpectedImprovement(model, y.max())


MODELS: dict[str, Callable[[], Callable[[Tensor, Tensor], AcquisitionFunction]]] = {
    "SingleTaskGP": Exact,
    "DeepGPModel": Deep,
    "DeepGPModel, anew every 10": lambda: Deep(fresh=10),
    "DeepGPModel, bend=0.1": lambda: Deep(bend=0.1),
    "DeepGPModel, functions": DeepFunctions,
    "VBLL": LastLayer,
}
COMPARED = ["SingleTaskGP", "DeepGPModel", "VBLL"]


@dataclass(frozen=True)
class Cell:
    """One run."""

    problem: str
    model: str
    seed: int
    initial: int = 20
    evaluations: int = 40


def run(cell: Cell) -> Record:
    """Minimises one function with one model."""
    problem, began = PROBLEMS[cell.problem], time.process_time()
    propose = MODELS[cell.model]()
    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.float64).expand(2, problem.input_dim)
    X = SobolEngine(problem.input_dim, scramble=True, seed=cell.seed).draw(cell.initial, dtype=torch.float64)
    y = problem.function(X)
    with torch.random.fork_rng():
        torch.manual_seed(cell.seed)  # BoTorch draws the points that it starts from
        while len(X) < cell.initial + cell.evaluations:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of optimisers that stop early
                acquisition = propose(X, -y[:, None])
                found, _ = optimize_acqf(acquisition, bounds, 1, RESTARTS, RAW, options={"maxiter": STEPS})
            X, y = torch.cat([X, found]), torch.cat([y, problem.function(found)])
    regret = (y - problem.least).cummin(0).values[cell.initial - 1 :]
    return {
        "cell": asdict(cell),
        "regret": [round(value, 6) for value in regret.tolist()],
        "cpu_seconds": round(time.process_time() - began, 1),
        "revision": REVISION,
    }


def times() -> Record:
    """CPU seconds of fits, of conditioning on a row, and of a batch of 50 posteriors of one point in six dimensions.

    And of a whole optimisation of 50 evaluations, of which the first ten are Sobol points.
    """
    generator = torch.Generator().manual_seed(0)
    seconds: dict[str, dict[str, float]] = {}
    for rows in (20, 20, 100, 200):  # the first time, things are imported and compiled
        X = torch.rand(rows + 1, 6, dtype=torch.float64, generator=generator)
        y = -PROBLEMS["Hartmann-6"].function(X)[:, None]
        at = X[:50].repeat(50, 1)[:50].unsqueeze(1)
        found = seconds[str(rows)] = {}
        found["SingleTaskGP"], _ = _timed(lambda: Exact()(X[:-1], y[:-1]))  # noqa: B023
        found["cold fit"], model = _timed(lambda: DeepGPModel(X[:-1], y[:-1], num_functions=64).fit())  # noqa: B023
        found["warm fit"], _ = _timed(lambda: DeepGPModel(X, y).warm_start(model).fit())  # noqa: B023
        found["first posterior"], _ = _timed(lambda: model.posterior(at))  # noqa: B023
        found["posterior"], _ = _timed(lambda: model.posterior(at))  # noqa: B023
        found["conditioning"], _ = _timed(lambda: model.condition_on_observations(X[-1:], y[-1:]))  # noqa: B023
    whole = run(Cell("Hartmann-6", "DeepGPModel", seed=0, initial=10))
    return {"times": seconds, "optimisation": whole["cpu_seconds"], "revision": REVISION}


def _timed(call: Callable[[], T]) -> tuple[float, T]:
    began = time.process_time()
    result = call()
    return round(time.process_time() - began, 4), result


def main(
    seeds: Annotated[int, typer.Option(help="how many runs of each")] = 10,
    model: Annotated[list[str] | None, typer.Option(help="only these")] = None,
    problem: Annotated[list[str] | None, typer.Option(help="only these")] = None,
    only_times: Annotated[
        bool, typer.Option("--times", help="what fits and posteriors cost, and nothing else")
    ] = False,
    only_report: Annotated[bool, typer.Option("--report", help="table and curves, and nothing else")] = False,
) -> None:
    """Runs what is missing, one run after the other."""
    store, console = Store(RESULTS), Console()
    store.claim()
    if only_report:
        write_regrets(store.records(), DOCS / "optimisation.md", DOCS / "optimisation.png")
        return
    if only_times:
        store.append(times())
        return
    done = [record["cell"] for record in store.records() if "cell" in record]
    for seed, function, name in product(range(seeds), problem or PROBLEMS, model or COMPARED):
        cell = Cell(function, name, seed)
        if asdict(cell) not in done:
            record = run(cell)
            store.append(record)
            console.print(function, name, seed, record["regret"][-1], record["cpu_seconds"])


if __name__ == "__main__":
    typer.run(main)
