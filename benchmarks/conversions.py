"""How close converted networks come: the table of docs/weights.md.

python -m benchmarks.conversions     (results/conversions.jsonl; run again, it does what is missing)

Networks are trained on 90 % of a set's rows, standardised, for 1,500 steps of Adam, in float32, and converted in both
precisions with the defaults. Differences are measured at the other rows, relative to the spread of the outputs there.
"""

import subprocess
import time
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import torch
from rich.console import Console
from torch import Tensor, nn

import actgp
from actgp_experiments.datasets import load_regression, splits
from actgp_experiments.store import Record, Store

RESULTS = Path(__file__).parents[1] / "results/conversions.jsonl"
STEPS, BATCH, RATE = 1_500, 256, 1e-3
ACTIVATIONS: dict[str, type[nn.Module]] = {"softplus": nn.Softplus, "SiLU": nn.SiLU, "GELU": nn.GELU, "ReLU": nn.ReLU}


@dataclass(frozen=True)
class Cell:
    """One network."""

    dataset: str
    activation: str
    hidden_layers: int = 2
    width: int = 128


CELLS = (
    *(Cell("concrete", name) for name in ACTIVATIONS),
    *(Cell("kin8nm", name, depth) for depth in (2, 3) for name in ("softplus", "GELU")),
    *(Cell("concrete", "ReLU", width=width) for width in (64, 256, 512)),
)


def main() -> None:
    """Runs what is missing."""
    store, console = Store(RESULTS), Console()
    store.claim()
    done = [record["cell"] for record in store.records()]
    for cell in CELLS:
        if asdict(cell) not in done:
            record = run(cell)
            store.append(record)
            console.print(record)


def run(cell: Cell) -> Record:
    """Trains and converts one network."""
    X, X_test, y = _data(cell.dataset)
    network = _trained(cell, X, y)
    record: Record = {"cell": asdict(cell), "revision": _revision()}
    for dtype in (torch.float32, torch.float64):
        network.to(dtype)
        began = time.process_time()
        model, report = actgp.convert_weights(network, X.to(dtype), tolerance=float("inf"))
        name = str(dtype).removeprefix("torch.")
        record[name] = {
            "difference": _difference(model, network, X_test.to(dtype)),
            "reported": report.error,
            "unexplained": [layer.unexplained for layer in report.layers],
            "cpu_seconds": time.process_time() - began,
        }
    return record


def _data(name: str) -> tuple[Tensor, Tensor, Tensor]:
    dataset = load_regression(name)
    train, test = splits(dataset, 1)[0]
    X, y = (torch.from_numpy(values) for values in (dataset.X, dataset.y))
    mean, sd = X[train].mean(0), X[train].std(0)
    X = ((X - mean) / sd).float()
    y = ((y - y[train].mean()) / y[train].std()).float()
    return X[train], X[test], y[train]


def _trained(cell: Cell, X: Tensor, y: Tensor) -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(0)  # torch's layers draw from its own generator
        widths = [X.shape[1], *[cell.width] * cell.hidden_layers, 1]
        modules = [module for a, b in pairwise(widths) for module in (nn.Linear(a, b), ACTIVATIONS[cell.activation]())]
    network = nn.Sequential(*modules[:-1])
    generator = torch.Generator().manual_seed(0)
    optimiser = torch.optim.Adam(network.parameters(), lr=RATE)
    for _ in range(STEPS):
        rows = torch.randint(len(X), (BATCH,), generator=generator)
        optimiser.zero_grad()
        nn.functional.mse_loss(network(X[rows])[:, 0], y[rows]).backward()
        optimiser.step()
    return network


@torch.no_grad()
def _difference(model: actgp.DeepGP, network: nn.Module, X: Tensor) -> float:
    wanted = network(X)[:, 0]
    return ((model.mean(X) - wanted).square().mean().sqrt() / wanted.std(correction=0)).item()


def _revision() -> str:
    return subprocess.run(["git", "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    main()
