"""The tables of a report: medians, what has run, ranks, winners, pairs of models, cost, and the banana data."""

from collections.abc import Sequence
from math import sqrt
from statistics import mean, stdev

from actgp_experiments.report import metrics, ranks
from actgp_experiments.report.banana import METRICS, Banana
from actgp_experiments.report.blocks import Entry, Table
from actgp_experiments.report.looks import is_ours
from actgp_experiments.report.metrics import Metric
from actgp_experiments.report.ranks import Grid
from actgp_experiments.report.records import Results, Summary

NOTHING = "–"
SCORES = (metrics.NLPD, metrics.RMSE, metrics.CRPS)


def medians(results: Results, models: Sequence[str], metric: Metric, title: str) -> Table:
    """Each model's median over splits on each data set; the best of those with all splits is marked."""
    columns = []
    for data in results.data_sets:
        values = {model: metric.loss(value) for model, value in ranks.medians(results, metric.key, data).items()}
        best = min(values.values(), default=None)
        columns.append([_median(results, model, data, metric, values.get(model) == best) for model in models])
    rows = [(_model(model), *(column[i] for column in columns)) for i, model in enumerate(models)]
    return Table(title, _head("model", *(sized(results, data) for data in results.data_sets)), tuple(rows))


def progress(results: Results, models: Sequence[str]) -> Table:
    """How many splits have run."""
    rows = []
    for model in models:
        counts = [(len(results.of(data, model)), len(results.splits(data))) for data in results.data_sets]
        rows.append((_model(model), *(Entry(f"{count} of {total}" if count else NOTHING) for count, total in counts)))
    return Table("Splits that have run", _head("model", *results.data_sets), tuple(rows))


def average_ranks(results: Results, grid: Grid, title: str) -> Table:
    """The average ranks of the models of a grid, the best by NLPD first."""
    averages = [ranks.average_ranks(results, metric.key, grid) for metric in SCORES]
    best = [min(average.values()) for average in averages]
    rows = [
        (_model(model), *(Entry(f"{a[model]:.2f}", best=a[model] == b) for a, b in zip(averages, best, strict=True)))
        for model in sorted(grid.models, key=lambda model: (averages[0][model], model))
    ]
    return Table(title, _head("model", *(metric.name for metric in SCORES)), tuple(rows))


def winners(results: Results) -> Table:
    """The best model on each data set, by each score."""
    rows = []
    for data in results.data_sets:
        best = [ranks.winners(results, metric.key, data) for metric in SCORES]
        names = [Entry(" and ".join(models) or NOTHING, ours=any(map(is_ours, models))) for models in best]
        rows.append((Entry(sized(results, data)), *names))
    title = "The model with the lowest median on each data set"
    return Table(title, _head("data", *(metric.name for metric in SCORES)), tuple(rows))


def pairs(results: Results, models: Sequence[str]) -> Table:
    """On how many data sets the model of the row has a lower median NLPD than that of the column."""
    rows = []
    for model in models:
        counts = [None if model == other else ranks.wins(results, metrics.NLPD.key, model, other) for other in models]
        entries = [Entry(NOTHING if count is None or not count[1] else f"{count[0]} of {count[1]}") for count in counts]
        rows.append((_model(model), *entries))
    title = "Data sets on which the model of the row has a lower median NLPD than the model of the column"
    return Table(title, _head("model", *models), tuple(rows))


def seconds(results: Results, models: Sequence[str]) -> Table:
    """Median training time on each data set."""
    rows = []
    for model in models:
        times = [
            metrics.significant(results.train_seconds(model, [data]).median) if results.of(data, model) else NOTHING
            for data in results.data_sets
        ]
        rows.append((_model(model), *map(Entry, times)))
    return Table("Median training time in seconds", _head("model", *results.data_sets), tuple(rows))


def banana(kinds: Sequence[Banana]) -> Table:
    """Medians and quartiles over seeds."""
    rows = tuple(
        (
            Entry(f"{kind.model}, {kind.layers} layer{'s' if kind.layers > 1 else ''}"),
            Entry(str(max(score.count for score in kind.scores.values()))),
            *(Entry(_quartiles(kind.scores[name])) for name in METRICS),
        )
        for kind in kinds
    )
    title = "Banana data: median over seeds, and quartiles in brackets"
    return Table(title, _head("model", "seeds", *METRICS.values()), rows)


def means(results: Results) -> Table:
    """Log density and RMSE of each model on each data set, in the units of the data, as published tables have them."""
    rows = []
    for data in results.data_sets:
        for model in results.models:
            if cells := results.of(data, model):
                density = _mean([-cell.metrics[metrics.NLPD_ORIGINAL.key] for cell in cells], "+.3f")
                rmse = _mean([cell.metrics[metrics.RMSE_ORIGINAL.key] for cell in cells], "#.3g")
                entries = (sized(results, data), str(len(cells)), density, rmse)
                rows.append((_model(model), *map(Entry, entries)))
    title = "Mean log density (higher is better) and RMSE in the units of the data, ± standard error"
    return Table(title, _head("model", "data", "splits", "log density", "RMSE"), tuple(rows))


def _mean(values: Sequence[float], form: str) -> str:
    """Mean ± standard error."""
    error = stdev(values) / sqrt(len(values)) if len(values) > 1 else 0.0
    return f"{mean(values):{form}} ± {error:#.2g}".replace("-", "−").replace("+", "")


def sized(results: Results, data: str) -> str:
    """The name of a data set with the numbers of its rows and inputs."""
    num_rows, num_inputs = results.size(data)
    return f"{data} ({num_rows},\N{NO-BREAK SPACE}{num_inputs})"


def _head(*names: str) -> tuple[Entry, ...]:
    return tuple(Entry(name, ours=is_ours(name)) for name in names)


def _model(name: str) -> Entry:
    return Entry(name, ours=is_ours(name))


def _median(results: Results, model: str, data: str, metric: Metric, best: bool) -> Entry:
    summary = results.summary(data, model, metric.key)
    if summary is None:
        return Entry(NOTHING)
    text = metric.text(summary.median)
    if not results.complete(data, model):
        return Entry(f"{text} *")
    return Entry(text, best=best and text != metrics.FAILED)


def _quartiles(score: Summary) -> str:
    median, lower, upper = map(metrics.NLPD.text, (score.median, score.lower, score.upper))
    return median if score.count == 1 else f"{median} [{lower}, {upper}]"
