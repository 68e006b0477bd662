"""A table that comes with scikit-learn, from its file to a page."""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from sklearn.datasets import load_diabetes

from actgp.page import numbers, write_page
from actgp.tables import Effort
from actgp.tabular import Settings, fit_frame, read_table

EFFORT: Effort = "fast"
TARGET = "progression"
NAMES = {
    "s1": "cholesterol",
    "s2": "LDL",
    "s3": "HDL",
    "s4": "cholesterol ratio",
    "s5": "log triglycerides",
    "s6": "sugar",
}
NAMES |= {"bp": "blood pressure"}


class Made(NamedTuple):
    """Files."""

    table: Path
    model: Path
    page: Path


def write_diabetes(folder: Path) -> Made:
    """Writes the table, its model, and the page."""
    made = Made(*(folder / f"diabetes{suffix}" for suffix in (".csv", ".actgp", ".html")))
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    X["sex"] = X["sex"].map({1.0: "one", 2.0: "other"})
    X.rename(columns=NAMES).assign(**{TARGET: y}).to_csv(made.table, index=False)
    fitting = fit_frame(read_table(made.table), Settings(TARGET, effort=EFFORT))
    model = replace(fitting.model, page=numbers(fitting))
    model.save(made.model)
    write_page(model, made.page)
    return made
