"""Networks and their deep GPs on the banana data: what they score, and how sure they are far from it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from actgp_experiments.report.lines import Line, read_lines
from actgp_experiments.report.records import Summary, summarise

EXPERIMENT = "banana"
METRICS = {
    "accuracy": "accuracy",
    "log_likelihood": "log-likelihood",
    "entropy_far": "entropy far away",
    "probability_far": "probability far away",
}


@dataclass(frozen=True)
class Banana:
    """What one kind of model scores, over seeds.

    Attributes:
        layers: How many layers it has.
        model: The network, or the deep GP that it became.
        scores: Each metric's median and quartiles, in the order of `METRICS`.
    """

    layers: int
    model: str
    scores: Mapping[str, Summary]


def read_banana(path: Path) -> list[Banana]:
    """Reads a file of runs, one JSON object a line; of lines for the same run the last one counts.

    Returns:
        Each kind of model, ordered by layers, the network before its deep GP.
    """
    runs = {}
    for line in read_lines(path):
        runs[line.integer("layers"), line.text("model"), line.integer("seed")] = _scores(line)
    kinds: dict[tuple[int, str], list[dict[str, float]]] = {}
    for (layers, model, _), scores in runs.items():
        kinds.setdefault((layers, model), []).append(scores)
    return [
        Banana(layers, model, {name: summarise([run[name] for run in found]) for name in METRICS})
        for (layers, model), found in sorted(kinds.items(), key=lambda kind: (kind[0][0], kind[0][1] != "network"))
    ]


def _scores(line: Line) -> dict[str, float]:
    if line.text("experiment") != EXPERIMENT:
        raise ValueError(
            f"{line.where}: the experiment must be {EXPERIMENT!r}, got {line.text('experiment')!r}; "
            "pass the file with the banana results"
        )
    metrics = line.inner("metrics")
    return {name: metrics.score(name) for name in METRICS}
