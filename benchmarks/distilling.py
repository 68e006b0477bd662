"""How faithful and how fast students are, on the regression sets of up to 11,000 rows.

python -m benchmarks.distilling     (results/distilling.jsonl; run again, it does what is missing)

Teachers are trained for 1,000 and 500 steps on the training rows of the first split, in single precision; students
learn on the same rows. Scores are of the test rows, with 200 paths of the teacher; times are CPU seconds of one thread,
medians of five, at 10,000 rows.
"""

import statistics
import subprocess
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import actgp
from actgp.distil.fidelity import rank_correlation
from actgp_experiments.datasets import load_regression, standardised
from actgp_experiments.store import Record, Store

RESULTS = Path(__file__).parents[1] / "results/distilling.jsonl"
SETS = ("yacht", "energy", "concrete", "wine_red", "kin8nm", "power", "naval")
RECIPE = actgp.Recipe(network_steps=1_000, num_steps=500)
PATHS, ROWS, TIMES = 200, 10_000, 5


def main() -> None:
    """Runs what is missing."""
    torch.set_num_threads(1)
    store = Store(RESULTS)
    store.claim()
    done = [record["dataset"] for record in store.records()]
    for name in SETS:
        if name not in done:
            store.append(run(name))


def run(name: str) -> Record:
    """One teacher and its student."""
    data, g = standardised(load_regression(name), 0), torch.Generator().manual_seed(0)
    model = actgp.deep_gp(data.X_train.shape[1], generator=g)
    began = time.process_time()
    actgp.fit(model, data.X_train, data.y_train, RECIPE, generator=g, progress=False)
    training = time.process_time() - began
    student = actgp.distill(model, data.X_train)
    record: Record = {"dataset": name, "revision": _revision(), "rows": len(data.X_train), "training": training}
    record |= {"distilling": student.report.seconds, "floor": student.head.floor.item()}
    return record | _scores(model, student, data) | _seconds(model, student, data.X_train)


@torch.no_grad()
def _scores(model: actgp.DeepGP, student: actgp.Student, data: Any) -> Record:
    prediction, said = model.predict(data.X_test, PATHS), student.predict(data.X_test)
    centre = data.X_train.mean(0)
    far = centre + 2 * (data.X_test - centre)
    pairs = {"near": (prediction, said), "far": (model.predict(far, PATHS), student.predict(far))}
    return {
        "nlpd": {"teacher": -prediction.log_prob(data.y_test).mean().item(), "student": _nlpd(said, data.y_test)},
        "coverage": {"teacher": _inside(prediction, data.y_test), "student": _inside(said, data.y_test)},
        "ranks": {
            place: rank_correlation(theirs.epistemic_std[:, None], own.epistemic[:, None])
            for place, (own, theirs) in pairs.items()
        },
    }


def _nlpd(said: Any, y: Tensor) -> float:
    return float(-said.log_prob(y).mean())


def _inside(said: Any, y: Tensor) -> float:
    lower, upper = said.interval()
    return float(((y >= lower) & (y <= upper)).double().mean())


@torch.no_grad()
def _seconds(model: actgp.DeepGP, student: actgp.Student, X: Tensor) -> Record:
    rows = X[torch.arange(ROWS) % len(X)]
    widths = [X.shape[1], *(layer.num_outputs for layer in model.gp_layers)]
    plain = nn.Sequential(
        *(part for a, b in pairwise(widths) for part in (nn.Linear(a, 128), nn.Softplus(), nn.Linear(128, b)))
    )
    network = model.network().eval()
    runs: dict[str, Callable[[], object]] = {
        "plain network": lambda: plain(rows),
        "the model's network": lambda: network(rows),
        "student": lambda: student(rows),
        "model, 10 samples": lambda: model.predict(rows, 10),
        "model, 20 samples": lambda: model.predict(rows, 20),
    }
    return {"seconds": {name: _median(work) for name, work in runs.items()}}


def _median(work: Callable[[], object]) -> float:
    work()
    seconds = []
    for _ in range(TIMES):
        began = time.process_time()
        work()
        seconds.append(time.process_time() - began)
    return statistics.median(seconds)


def _revision() -> str:
    return subprocess.run(["git", "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    main()
