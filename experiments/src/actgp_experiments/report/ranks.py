"""Who is better: ranks on each data set, their averages over a full grid, winners, and pairs of models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite

from actgp_experiments.report.records import Results


@dataclass(frozen=True)
class Grid:
    """Models and data sets such that each of the models has all splits of each of the data sets."""

    models: tuple[str, ...]
    data_sets: tuple[str, ...]


def ranks(values: Mapping[str, float]) -> dict[str, float]:
    """1 for the lowest value; equal ones share the mean of their places."""
    return {
        name: 1 + sum(other < value for other in values.values()) + (sum(o == value for o in values.values()) - 1) / 2
        for name, value in values.items()
    }


def medians(results: Results, metric: str, data: str, models: Sequence[str] | None = None) -> dict[str, float]:
    """The medians over splits on one data set, of those of `models` that have all its splits."""
    summaries = {
        model: results.summary(data, model, metric)
        for model in (results.models if models is None else models)
        if results.complete(data, model)
    }
    return {model: summary.median for model, summary in summaries.items() if summary is not None}


def average_ranks(results: Results, metric: str, grid: Grid) -> dict[str, float]:
    """The mean over the data sets of a grid of each model's rank by median, among the models of the grid."""
    each = [ranks(medians(results, metric, data, grid.models)) for data in grid.data_sets]
    return {model: sum(rank[model] for rank in each) / len(each) for model in grid.models} if each else {}


def winners(results: Results, metric: str, data: str) -> list[str]:
    """The models with the lowest median on a data set, of those with all splits; several if they are equal."""
    values = medians(results, metric, data)
    lowest = min(values.values(), default=inf)
    return [model for model, value in values.items() if value == lowest and isfinite(value)]


def wins(results: Results, metric: str, model: str, other: str) -> tuple[int, int]:
    """On how many data sets `model` has a lower median than `other`, and how many data sets both have in full."""
    pairs = [medians(results, metric, data, (model, other)) for data in results.data_sets]
    both = [pair for pair in pairs if len(pair) == 2]
    return sum(pair[model] < pair[other] for pair in both), len(both)


def largest_grid(results: Results) -> Grid:
    """The full grid with the most cells, models times data sets, and two models at least if there is one.

    Of equal ones that with more data sets.

    Every full grid that cannot be widened has as data sets an intersection of what some models have in full.
    """
    full = _full(results)
    candidates: set[frozenset[str]] = set()
    for sets in full.values():
        candidates |= {sets} | {sets & candidate for candidate in candidates}
    grids = [_grid(results, full, sets) for sets in candidates if sets]
    empty = Grid((), ())
    return max(
        grids, key=lambda grid: (len(grid.models) > 1, _area(grid), len(grid.data_sets), grid.data_sets), default=empty
    )


def common_grid(results: Results) -> Grid:
    """All models, on the data sets that all of them have in full; there may be none."""
    full = _full(results)
    return _grid(results, full, frozenset.intersection(*full.values()))


def order(results: Results) -> list[str]:
    """All models: those of the largest full grid by their average NLPD rank there, then the others by name."""
    average = average_ranks(results, "nlpd", largest_grid(results))
    return sorted(results.models, key=lambda model: (average.get(model, inf), model))


def _full(results: Results) -> dict[str, frozenset[str]]:
    """The data sets that each model has in full."""
    return {
        model: frozenset(data for data in results.data_sets if results.complete(data, model))
        for model in results.models
    }


def _grid(results: Results, full: Mapping[str, frozenset[str]], sets: frozenset[str]) -> Grid:
    models = tuple(model for model in results.models if sets <= full[model])
    return Grid(models, tuple(data for data in results.data_sets if data in sets))


def _area(grid: Grid) -> int:
    return len(grid.models) * len(grid.data_sets)
