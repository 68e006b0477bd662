"""The scores that a report shows: their names, how they are written, and when one is better than another."""

from collections.abc import Callable
from math import isfinite
from typing import NamedTuple

FAILED = "failed"


class Metric(NamedTuple):
    """A score.

    Attributes:
        key: Its name in files.
        name: Its name in reports.
        write: A finite value as text.
        target: The best value there is; None if lower is always better.
    """

    key: str
    name: str
    write: Callable[[float], str]
    target: float | None = None

    def loss(self, value: float) -> float:
        """What is lower the better `value` is."""
        return value if self.target is None else abs(value - self.target)

    def text(self, value: float) -> str:
        """A value as text, with a true minus sign; ∞ stands for runs that failed."""
        return self.write(value).replace("-", "−") if isfinite(value) else FAILED


def significant(value: float) -> str:
    """Three significant digits, and no exponent where it can be helped."""
    if value == 0 or 1e-4 <= abs(value) < 99.95:
        return f"{value:#.3g}"
    return f"{value:,.0f}" if 99.95 <= abs(value) < 1e7 else f"{value:.2e}"


def decimals(value: float) -> str:
    """Three decimals below a thousand."""
    return f"{value:.3f}" if abs(value) < 1e3 else significant(value)


def percent(value: float) -> str:
    """Percent with one decimal."""
    return f"{100 * value:.1f} %"


NLPD = Metric("nlpd", "NLPD", decimals)
RMSE = Metric("rmse", "RMSE", significant)
CRPS = Metric("crps", "CRPS", significant)
COVERAGE = Metric("coverage_95", "95 % coverage", percent, target=0.95)
NLPD_ORIGINAL = Metric("nlpd_original", "NLPD", decimals)
RMSE_ORIGINAL = Metric("rmse_original", "RMSE", significant)
