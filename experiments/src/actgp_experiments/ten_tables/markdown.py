"""What is stored of the tables, as a table."""

from collections.abc import Sequence
from typing import Any

NEAR = 1.05  # of the trees' error, or of their accuracy the other way round

HEADER = """| table | rows | NLPD | of trees | RMSE or accuracy | of trees | 95 % interval | of trees | CPU s |
|---|---|---|---|---|---|---|---|---|"""


def markdown(records: Sequence[dict[str, Any]]) -> str:
    """A row for each, and how many are ahead."""
    lines = [HEADER]
    for each in records:
        words = [each["table"], f"{each['rows']:,}", f"{each['nlpd']:.3f}", f"{each['nlpd_trees']:.3f}"]
        words += [_shown(each, value) for value in _point(each)]
        words += [_share(each[name]) for name in ("coverage", "coverage_trees")]
        lines.append(f"| {' | '.join(words)} | {each['fit_cpu_seconds']:.0f} |")
    ahead = sum(each["nlpd"] < each["nlpd_trees"] for each in records)
    near = sum(is_near(each) for each in records)
    return "\n".join([*lines, "", f"NLPD better on {ahead} of {len(records)}, RMSE or accuracy within 5 % on {near}."])


def is_near(record: dict[str, Any]) -> bool:
    """Whether RMSE or accuracy is at most 5 % worse than that of trees."""
    point, trees = _point(record)
    return point <= NEAR * trees if record["task"] == "regression" else NEAR * point >= trees


def _point(record: dict[str, Any]) -> tuple[float, float]:
    name = "RMSE" if record["task"] == "regression" else "accuracy"
    return record[name], record[f"{name}_trees"]


def _shown(record: dict[str, Any], value: float) -> str:
    return f"{value:.4g}" if record["task"] == "regression" else _share(value)


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"
