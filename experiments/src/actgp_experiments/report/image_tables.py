"""The tables of a report on images."""

from collections.abc import Sequence
from math import isfinite
from statistics import fmean

from actgp_experiments.report.blocks import Entry, Table
from actgp_experiments.report.images import FOREIGN, SCORES, ImageRun, chosen, moments, names
from actgp_experiments.report.looks import is_ours
from actgp_experiments.report.metrics import FAILED

TITLES = {"accuracy": "accuracy, %", "log_likelihood": "log-likelihood", "ece": "ECE, %", "brier": "Brier score"}
PERCENT = ("accuracy", "ece")
SHIFTED = ("accuracy", "log_likelihood", "ece", "auroc")
NOTHING = "–"


def unshifted(runs: Sequence[ImageRun], data: str) -> Table:
    """Mean and standard deviation over seeds of each score on test images."""
    rows = []
    for model in names(runs)[1]:
        own = chosen(runs, data, model)
        if own:
            entries = [Entry(_text(name, [run.scores[name] for run in own])) for name in SCORES]
            foreign = [run.scores[FOREIGN] for run in own if FOREIGN in run.scores]
            rows.append((_model(model), *entries, Entry(_text(FOREIGN, foreign) if foreign else NOTHING)))
    columns = ("model", *(TITLES[name] for name in SCORES), "AUROC, foreign images")
    return Table(f"{data}: test images".replace("_", " "), tuple(map(Entry, columns)), tuple(rows))


def shifted(runs: Sequence[ImageRun], data: str, shift: str) -> Table:
    """The same, averaged over the levels of a shift from the first that changes anything."""
    rows = []
    for model in names(runs)[1]:
        own = chosen(runs, data, model)
        if own:
            levels = [[level.scores for level in run.shifts[shift] if level.level > 0] for run in own]
            means = {name: [fmean(scores[name] for scores in of_run) for of_run in levels] for name in SHIFTED}
            rows.append((_model(model), *(Entry(_text(name, means[name])) for name in SHIFTED)))
    columns = ("model", *(TITLES.get(name, "AUROC, shifted images") for name in SHIFTED))
    title = f"{data}: mean over the levels of {shift}".replace("_", " ")
    return Table(title, tuple(map(Entry, columns)), tuple(rows))


def _text(name: str, values: Sequence[float]) -> str:
    mean, sd = moments(values)
    if not isfinite(mean):
        return FAILED
    scale, digits = (100, 2) if name in PERCENT else (1, 3)
    text = f"{scale * mean:.{digits}f}".replace("-", "−")
    return text if len(values) == 1 else f"{text} ± {scale * sd:.{digits}f}"


def _model(name: str) -> Entry:
    return Entry(name, ours=is_ours(name))
