"""The eigenvalue tables of the paper's appendix C, three ways.

    λ_n = ω_d ∫_0^π s(cos θ) P_n(cos θ) sin^(d−2) θ dθ,      ω_d = Γ(d/2) / (Γ((d−1)/2) √π)

* numerical: this integral by Gauss quadrature in double precision;
* paper: what the paper prints as its analytical values, for odd d only, where its derivation holds;
* actgp: `actgp.spectrum`, for every d.

Where an eigenvalue is zero, the first two show their round-off.
"""

import csv
from collections.abc import Callable, Mapping, Sequence
from math import gamma, pi, sqrt
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.table import Table
from scipy.integrate import fixed_quad
from scipy.special import eval_chebyt, eval_gegenbauer

from actgp.activations import ReLU
from actgp.kernels import ArcCosine
from actgp.sphere import Zonal, spectrum

Values = NDArray[np.float64]
Shape = Callable[[Values], Values]

NUM_LEVELS = 10
ANY_WIDTH = 1_000  # of a terminal, in which every table fits
NUM_NODES = 50  # on each half; the integrand is smooth there
ODD_DIMENSIONS = (3, 5, 7)
EVEN_DIMENSIONS = (2, 4, 6)
HEADER = ("level", "dimension", "numerical", "paper", "actgp")

# The columns "analytical" of the paper's tables C.1 and C.2, n = 0, …, 9, by dimension.
PAPER_ARC_COSINE = {
    3: (0.375, 0.167, 0.0234, -3.53e-17, 0.000651, -7.07e-17, 9.16e-05, 2.83e-16, 2.29e-05, 1.7e-15),
    5: (0.352, 0.1, 0.00977, 4.24e-17, 0.000153, -1.01e-16, 1.37e-05, 2.36e-17, 2.38e-06, 3.7e-16),
    7: (0.342, 0.0714, 0.00534, 5.3e-17, 5.34e-05, -2.52e-17, 3.34e-06, -4.5e-17, 4.26e-07, 1.9e-16),
}
PAPER_RELU = {
    3: (0.25, 0.167, 0.0625, 0.0, -0.0104, 0.0, 0.00391, 2.83e-16, -0.00195, 1.7e-15),
    5: (0.188, 0.1, 0.0312, 3.37e-17, -0.00391, 6.75e-17, 0.00117, 1.35e-16, -0.000488, -8.1e-16),
    7: (0.156, 0.0714, 0.0195, 2.69e-17, -0.00195, 5.37e-17, 0.000488, 0.0, -0.000174, 2.15e-15),
}


class Eigenvalue(NamedTuple):
    """One eigenvalue, three ways; `paper` is None where the paper has none."""

    level: int
    dimension: int
    numerical: float
    paper: float | None
    actgp: float


class EigenvalueTable(NamedTuple):
    """The eigenvalues of one shape function, ordered by dimension, then level."""

    name: str
    title: str
    rows: tuple[Eigenvalue, ...]


def eigenvalue_tables() -> tuple[EigenvalueTable, EigenvalueTable]:
    """Both tables: the first-order arc-cosine kernel, and ReLU."""
    return (
        _table("arc_cosine", "Eigenvalues λ_n of the arc-cosine kernel", ArcCosine(1), arc_cosine, PAPER_ARC_COSINE),
        _table("relu", "Coefficients σ_n of ReLU", ReLU(), relu, PAPER_RELU),
    )


def numerical_eigenvalue(shape: Shape, dimension: int, level: int) -> float:
    """λ_n by Gauss–Legendre quadrature in double precision, split at θ = π/2, where ReLU has its kink."""
    n, d = level, dimension
    omega = gamma(d / 2) / (gamma((d - 1) / 2) * sqrt(pi))

    def integrand(theta: Values) -> Values:
        t = np.cos(theta)
        return shape(t) * _polynomial(n, d, t) * np.sin(theta) ** (d - 2)

    halves = (fixed_quad(integrand, low, high, n=NUM_NODES)[0] for low, high in ((0, pi / 2), (pi / 2, pi)))
    return float(omega * sum(halves))


def arc_cosine(t: Values) -> Values:
    """(√(1−t²) + t (π − arccos t)) / π, the paper's eq. 5."""
    return (np.sqrt(1 - t**2) + t * (pi - np.arccos(t))) / pi


def relu(t: Values) -> Values:
    """max(0, t)."""
    return np.maximum(0.0, t)


def write_tables(folder: Path) -> list[Path]:
    """Writes each table as CSV, in full precision, and returns the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for table in eigenvalue_tables():
        path = folder / f"eigenvalues_{table.name}.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(HEADER)
            writer.writerows(table.rows)  # None is written as an empty field
        paths.append(path)
    return paths


def render_tables(tables: Sequence[EigenvalueTable] | None = None) -> list[Table]:
    """The tables for a terminal of 80 columns: three for each shape, of an even dimension and the odd one above it.

    They are as wide as their numbers, and no narrower in a narrow terminal: printed with `crop=False`, their lines run
    on there, and no digit or exponent is cut off.
    """
    return [
        _render(table, dimensions)
        for table in (eigenvalue_tables() if tables is None else tables)
        for dimensions in zip(EVEN_DIMENSIONS, ODD_DIMENSIONS, strict=True)
    ]


def _table(
    name: str, title: str, shape: Zonal, function: Shape, paper: Mapping[int, tuple[float, ...]]
) -> EigenvalueTable:
    rows = []
    for d in sorted(ODD_DIMENSIONS + EVEN_DIMENSIONS):
        ours = spectrum(shape, d, NUM_LEVELS).eigenvalues.tolist()
        printed = paper.get(d, (None,) * NUM_LEVELS)
        rows += [Eigenvalue(n, d, numerical_eigenvalue(function, d, n), printed[n], ours[n]) for n in range(NUM_LEVELS)]
    return EigenvalueTable(name, title, tuple(rows))


def _polynomial(n: int, d: int, t: Values) -> Values:
    """P_n(t), from SciPy's polynomials rather than ours."""
    if d == 2:
        return eval_chebyt(n, t)
    alpha = (d - 2) / 2
    return np.asarray(eval_gegenbauer(n, alpha, t) / eval_gegenbauer(n, alpha, 1.0), dtype=np.float64)


def _render(table: EigenvalueTable, dimensions: tuple[int, ...]) -> Table:
    rendered = Table(
        title=table.title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False
    )
    columns = [("\nn", [str(n) for n in range(NUM_LEVELS)])]
    for d in dimensions:
        rows = sorted((row for row in table.rows if row.dimension == d), key=lambda row: row.level)
        columns.append((f"d = {d}\nnumerical", [f"{row.numerical:.3g}" for row in rows]))
        printed = [f"{row.paper:.3g}" for row in rows if row.paper is not None]
        if printed:
            columns.append(("\npaper", printed))
        columns.append(("\nactgp", [f"{row.actgp:.3g}" for row in rows]))
    for heading, _ in columns:
        style = "bold" if heading.endswith("actgp") else ""
        rendered.add_column(heading, justify="right", no_wrap=True, style=style)
    for line in zip(*(texts for _, texts in columns), strict=True):
        rendered.add_row(*line)
    rendered.width = Console(width=ANY_WIDTH).measure(rendered).maximum  # else rich cuts numbers to fit a terminal
    return rendered
