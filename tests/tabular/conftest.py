"""A small table in a file, and models of it that are made in seconds: shared by tests that leave them as they are."""

import importlib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from actgp.distil import distill
from actgp.page import numbers
from actgp.tabular import Fitting, Settings, fit_frame, read_table


@pytest.fixture(scope="session")
def quick() -> Iterator[None]:
    """Students that have hardly learnt anything."""
    compact = importlib.import_module("actgp.tabular.compact")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compact, "distill", partial(distill, num_places=200, num_steps=20))
        yield


def homes(number: int = 90) -> pd.DataFrame:
    """Numbers, gaps, text, dates, and remarks that are of no use."""
    random = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "size": random.lognormal(4, 0.3, number).round(1),
            "built": random.choice([1950, 1980, 2010, np.nan], number),
            "town": random.choice(["Aachen", "Bonn", "Köln", None], number),
            "sold": pd.date_range("2021-01-01", periods=number, freq="11D").strftime("%d.%m.%Y"),
            "garden": random.choice([True, False], number),
            "remark": [f"home {i}" for i in range(number)],
        }
    )
    size = table["size"] * np.where(table["town"] == "Bonn", 4.0, 3.0)
    table["price"] = (size + 5 * random.normal(size=number)).round(2)
    table["quick"] = np.where(table["price"] + 30 * random.normal(size=number) > 180, "no", "yes")
    return table


@pytest.fixture(scope="session")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With semicolons, decimal commas and Latin letters."""
    path = tmp_path_factory.mktemp("tables") / "homes.csv"
    homes().to_csv(path, sep=";", decimal=",", index=False, encoding="cp1252")
    return path


def fitted(path: Path, target: str, other: str) -> Fitting:
    settings = Settings(target, drop=[other], effort="fast")
    fitting = fit_frame(read_table(path), settings)
    assert "the small network is not as faithful as it should be" in fitting.notes[-1]  # it has hardly learnt anything
    return fitting._replace(model=replace(fitting.model, page=numbers(fitting)))


@pytest.fixture(scope="session")
def prices(file: Path, quick: None) -> Fitting:
    return fitted(file, "price", "quick")


@pytest.fixture(scope="session")
def labels(file: Path, quick: None) -> Fitting:
    return fitted(file, "quick", "price")
