"""How faithful and how fast students are, on eight regression sets and on images of digits.

python -m benchmarks.distilling [split …]     (results/distilling.jsonl; run again, it does what is missing)

Teachers are a deep GP, trained for 1,000 and 500 steps in single precision; the default for tables, a mixture in double
precision; and a network for labels that `uncertain` has converted. Students learn on their teachers' training rows.
Scores are of the test rows, at most 2,000 of them, with 200 paths of the teacher. Times are CPU seconds of one thread,
medians of five, at 10,000 rows, of teachers with as many paths as predictions have by default. The plain network is of
the same precision: of the deep GP's shape, of two layers of 128 units beside a mixture, or what was converted.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import actgp
from actgp.distil.fidelity import rank_correlation
from actgp_experiments.datasets import load_regression, standardised
from actgp_experiments.store import Record, Store

RESULTS = Path(__file__).parents[1] / "results/distilling.jsonl"
SETS = ("yacht", "energy", "concrete", "wine_red", "kin8nm", "power", "naval", "protein")
KINDS = ("mixture", "deep GP")
RECIPE = actgp.Recipe(network_steps=1_000, num_steps=500)
WIDTH, NETWORK_STEPS, BATCH = 128, 500, 128
PATHS, MOST_ROWS, ROWS, TIMES = 200, 2_000, 10_000, 5


@dataclass(frozen=True)
class Lesson:
    """A teacher, what it was trained on, and a plain network beside it.

    Attributes:
        teacher: Trained.
        training: CPU seconds that this took.
        X: Its rows.
        X_test: Other rows.
        y_test: Their targets.
        plain: A network of its shape.
    """

    teacher: Any
    training: float
    X: Tensor
    X_test: Tensor
    y_test: Tensor
    plain: nn.Module


def main() -> None:
    """Runs what is missing, of the first split if none is named."""
    torch.set_num_threads(1)
    store = Store(RESULTS)
    store.claim()
    done = [(record["teacher"], record["dataset"], record["split"]) for record in store.records()]
    for split in map(int, sys.argv[1:] or ["0"]):
        cells = [(kind, name, split) for name in SETS for kind in KINDS]
        for cell in [*cells, ("network for labels", "digits", split)]:
            if cell not in done:
                store.append(run(*cell))


def run(kind: str, name: str, split: int) -> Record:
    """One teacher and its student."""
    lesson = {"mixture": mixture, "deep GP": deep_gp, "network for labels": labels}[kind](name, split)
    began = time.process_time()
    student = actgp.distill(lesson.teacher, lesson.X)
    distilling = time.process_time() - began
    record: Record = {"teacher": kind, "dataset": name, "split": split, "revision": _revision()}
    record |= {"rows": len(lesson.X), "training": lesson.training, "distilling": distilling}
    return record | scores(student, lesson) | {"seconds": seconds(student, lesson)}


def deep_gp(name: str, split: int) -> Lesson:
    """A deep GP of three layers."""
    data, g = standardised(load_regression(name), split), torch.Generator().manual_seed(split)
    began = time.process_time()
    model = actgp.deep_gp(data.X_train.shape[1], generator=g)
    actgp.fit(model, data.X_train, data.y_train, RECIPE, generator=g, progress=False)
    training = time.process_time() - began
    widths = [data.X_train.shape[1], *(layer.num_outputs for layer in model.gp_layers)]
    plain = nn.Sequential(
        *(part for a, b in pairwise(widths) for part in (nn.Linear(a, WIDTH), nn.Softplus(), nn.Linear(WIDTH, b)))
    )
    return Lesson(model, training, data.X_train, data.X_test, data.y_test, plain)


def mixture(name: str, split: int) -> Lesson:
    """What `DGPRegressor` fits by default."""
    data, g = standardised(load_regression(name), split), torch.Generator().manual_seed(split)
    X, y, X_test, y_test = (values.double() for values in (data.X_train, data.y_train, data.X_test, data.y_test))
    began = time.process_time()
    model, _ = actgp.fit_table(X, y, generator=g)
    return Lesson(model, time.process_time() - began, X, X_test, y_test, _two_layers(X.shape[1], 1).double())


def labels(name: str, split: int) -> Lesson:
    """A network that tells digits apart, converted."""
    del name
    torch.manual_seed(split)
    pixels, y = (torch.from_numpy(values) for values in load_digits(return_X_y=True))
    order = torch.randperm(len(pixels))
    X, y = pixels.float()[order] / 16, y[order]
    fifth = len(X) // 5
    began = time.process_time()
    network = _two_layers(X.shape[1], 10)
    adam = torch.optim.Adam(network.parameters(), 1e-3)
    for _ in range(NETWORK_STEPS):
        rows = fifth + torch.randint(len(X) - fifth, (BATCH,))
        loss = nn.functional.cross_entropy(network(X[rows]), y[rows])
        adam.zero_grad()
        loss.backward()
        adam.step()
    model, _ = actgp.uncertain(network, X[fifth:], y[fifth:], progress=False)
    return Lesson(model, time.process_time() - began, X[fifth:], X[:fifth], y[:fifth], network)


def _two_layers(num_inputs: int, num_outputs: int) -> nn.Sequential:
    hidden = [part for n in (num_inputs, WIDTH) for part in (nn.Linear(n, WIDTH), nn.SiLU())]
    return nn.Sequential(*hidden, nn.Linear(WIDTH, num_outputs))


@torch.no_grad()
def scores(student: actgp.Student, lesson: Lesson) -> Record:
    """NLPD and coverage of both (of labels: confidence less accuracy), and how the ranks of their deviations agree."""
    X, y, centre = lesson.X_test[:MOST_ROWS], lesson.y_test[:MOST_ROWS], lesson.X.mean(0)
    far = centre + 2 * (X - centre)
    found: Record = {"nlpd": {}, "coverage": {}, "ranks": {}}
    for place, rows in (("near", X), ("far", far)):
        theirs, own = lesson.teacher.predict(rows, PATHS), student.predict(rows)
        pair = (own.epistemic_std.square().reshape(len(rows), -1), theirs.epistemic.reshape(len(rows), -1))
        found["ranks"][place] = rank_correlation(*(values.sum(1, keepdim=True) for values in pair))
        if place == "near":
            for name, said in (("teacher", theirs), ("student", own)):
                found["nlpd"][name] = -said.log_prob(y).double().mean().item()
                found["coverage"][name] = _over_confidence(said, y) if y.dtype == torch.int64 else _inside(said, y)
    return found


def _inside(said: Any, y: Tensor) -> float:
    lower, upper = said.interval()
    return ((y >= lower) & (y <= upper)).double().mean().item()


def _over_confidence(said: Any, y: Tensor) -> float:
    confidence, label = said.probabilities.max(1)
    return (confidence - (label == y).to(confidence)).mean().item()


@torch.no_grad()
def seconds(student: actgp.Student, lesson: Lesson) -> Record:
    """Medians, of one call at all rows."""
    rows, teacher, plain = lesson.X[torch.arange(ROWS) % len(lesson.X)], lesson.teacher, lesson.plain.eval()
    runs: dict[str, Callable[[], object]] = {
        "plain network": lambda: plain(rows),
        "student": lambda: student.predict(rows),
        "teacher": lambda: teacher.predict(rows),
    }
    return {name: _median(work) for name, work in runs.items()}


def _median(work: Callable[[], object]) -> float:
    work()
    found = []
    for _ in range(TIMES):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return statistics.median(found)


def _revision() -> str:
    return subprocess.run(["git", "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    main()
