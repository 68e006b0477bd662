"""The grid as a Markdown table: medians for each data set, and how often ours is the better one."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from statistics import median

from actgp_experiments.bring.cells import Cell
from actgp_experiments.bring.contestants import CONTESTANTS, OURS
from actgp_experiments.bring.grid import latest
from actgp_experiments.store import Record

Network = tuple[str, str, int, int]  # data, activation, layers, seed
Value = Callable[[Record], float]


def nlpd(record: Record) -> float:
    """In standardised units."""
    return float(record["metrics"]["nlpd"])


def markdown(records: Sequence[Record]) -> str:
    """Three tables: NLPD for each set; RMSE, coverage and seconds over all; the share of cells that ours wins."""
    by_cell = latest(records)
    models = [name for name in CONTESTANTS if any(cell.model == name for cell in by_cell)]
    sets = list(dict.fromkeys(sorted(cell.data for cell in by_cell)))
    return "\n\n".join((_scores(by_cell, models, sets), _summary(by_cell, models)))


def _scores(by_cell: dict[Cell, Record], models: Sequence[str], sets: Sequence[str]) -> str:
    """Median NLPD."""

    def of(model: str, name: str) -> list[float]:
        return [nlpd(record) for cell, record in by_cell.items() if (cell.model, cell.data) == (model, name)]

    rows = [[model, *(_median(of(model, name)) for name in sets)] for model in models]
    return _table(["NLPD, median", *sets], rows)


def _summary(by_cell: dict[Cell, Record], models: Sequence[str]) -> str:
    """Over all cells of a contestant; beside each other contestant only the networks that ours is around, too."""
    of: dict[str, dict[Network, Record]] = defaultdict(dict)
    for cell, record in by_cell.items():
        of[cell.model][(cell.data, cell.activation, cell.layers, cell.seed)] = record
    plain = of.get("network", {})
    rows = []
    for model in models:
        found = of[model]
        both = [(found[key], of[OURS][key]) for key in found if key in of.get(OURS, {})]
        ratios = [r["metrics"]["rmse"] / plain[key]["metrics"]["rmse"] for key, r in found.items() if key in plain]
        rows.append(
            [
                model,
                str(len(found)),
                _median(ratios),
                f"{100 * _mean(r['metrics']['coverage_95'] for r in found.values()):.1f}",
                _median([r["seconds"]["train"] for r in found.values()], 1),
                _median([r["seconds"]["post_hoc"] for r in found.values()], 1),
                "–" if model == OURS or not both else f"{100 * _mean(nlpd(b) < nlpd(a) for a, b in both):.0f} %",
                "–" if model == OURS or not both else f"{max(nlpd(b) - nlpd(a) for a, b in both):+.3f}",
            ]
        )
    head = [
        "",
        "cells",
        "RMSE, relative",
        "95 % coverage",
        "s, training",
        "s, post hoc",
        "ours better",
        "ours at worst",
    ]
    return _table(head, rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _median(values: Sequence[float], digits: int = 3) -> str:
    return f"{median(values):.{digits}f}" if values else "–"


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed)
