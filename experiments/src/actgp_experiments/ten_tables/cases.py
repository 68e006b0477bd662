"""Twelve files as people have them: gaps, text, long tails, outliers, commas, all that a reader stumbles over.

All are generated, but for those of diabetes and cancer, which come with scikit-learn and are written in odd ways.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_diabetes

Random = np.random.Generator


class Case(NamedTuple):
    """A kind of table.

    Attributes:
        rows: As many as it usually has.
        target: Its target.
        make: Makes the table.
        write: Writes it.
    """

    rows: int
    target: str
    make: Callable[[Random, int], pd.DataFrame]
    write: Callable[[pd.DataFrame, Path], Any] = lambda frame, path: frame.to_csv(path, index=False)


def passengers(random: Random, rows: int) -> pd.DataFrame:
    """Like the Titanic's: text, names, cabins of which most are missing, ages with gaps."""
    sex = random.choice(["male", "female"], rows, p=[0.65, 0.35])
    ticket = random.choice([1, 2, 3], rows, p=[0.24, 0.21, 0.55])
    age = random.gamma(6, 5, rows).clip(0.4, 80)
    fare = np.exp(random.normal(4.4 - 0.8 * ticket, 0.5))
    logit = 2.6 * (sex == "female") - 0.9 * (ticket - 2) + 1.5 * (age < 10) - 0.012 * age - 0.6
    survived = random.random(rows) < 1 / (1 + np.exp(-logit))
    table = pd.DataFrame(
        {
            "name": [f"Passenger, {sex[i]} no. {i}" for i in range(rows)],
            "class": ticket,
            "sex": sex,
            "age": np.where(random.random(rows) < 0.2, np.nan, age.round(1)),
            "fare": fare.round(2),
            "cabin": pd.Series(random.choice(list("ABCDE"), rows)).where((ticket == 1) & (random.random(rows) < 0.7)),
            "port": random.choice(np.array(["S", "C", "Q", None]), rows, p=[0.72, 0.18, 0.08, 0.02]),
        }
    )
    table["survived"] = np.where(survived, "yes", "no")
    return table


def homes(random: Random, rows: int) -> pd.DataFrame:
    """Prices with a long tail, dates of sale, quarters as text, gaps."""
    size, built = random.lognormal(4.4, 0.75, rows), random.integers(1890, 2022, rows)
    quarter = random.choice(["Altstadt", "Hafen", "Nord", "Süd", "Wald"], rows, p=[0.1, 0.15, 0.3, 0.3, 0.15])
    level = pd.Series({"Altstadt": 0.5, "Hafen": 0.2, "Nord": -0.1, "Süd": 0.0, "Wald": 0.35})[quarter].to_numpy()
    day = random.integers(0, 2_500, rows)
    log_price = (
        8.0 + 0.95 * np.log(size) + level + 0.004 * (built - 1950) + 0.00018 * day + 0.14 * random.normal(size=rows)
    )
    price = np.exp(log_price + 0.25 * random.normal(size=rows) * (quarter == "Altstadt"))
    return pd.DataFrame(
        {
            "area": size.round(1),
            "built": np.where(random.random(rows) < 0.15, np.nan, built),
            "quarter": quarter,
            "sold on": (pd.Timestamp("2017-01-01") + pd.to_timedelta(day, unit="D")).strftime("%d.%m.%Y"),
            "lift": random.choice([True, False], rows),
            "price": price.round(-2),
        }
    )


def sensors(random: Random, rows: int) -> pd.DataFrame:
    """A smooth signal of several sensors, 3 % of whose targets are outliers."""
    X = random.uniform(-2, 2, size=(rows, 6))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.3 * X[:, 3] + 0.1 * random.normal(size=rows)
    y = np.where(random.random(rows) < 0.03, y + 8 * random.standard_t(3, rows), y)
    return pd.DataFrame(X.round(4), columns=[f"sensor {i}" for i in range(6)]).assign(signal=y.round(4))


def counts(random: Random, rows: int) -> pd.DataFrame:
    """Bicycles counted in an hour."""
    hour, day, warm = random.integers(0, 24, rows), random.integers(0, 7, rows), random.normal(12, 8, rows)
    rush = np.exp(-0.5 * ((hour - 8) / 1.5) ** 2) + np.exp(-0.5 * ((hour - 17.5) / 2.0) ** 2)
    rate = np.exp(1.2 + 1.6 * rush * (day < 5) + 0.8 * (day >= 5) * (abs(hour - 14) < 5) + 0.04 * warm)
    names = np.array(["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"])
    return pd.DataFrame({"hour": hour, "day": names[day], "degrees": warm.round(1), "bicycles": random.poisson(rate)})


def rare(random: Random, rows: int) -> pd.DataFrame:
    """Frauds, one in fifty."""
    amount, hour, country = random.lognormal(3.5, 1.2, rows), random.uniform(0, 24, rows), random.choice(40, rows)
    logit = -5.6 + 0.9 * np.log(amount / 33) + 1.8 * ((hour < 5) | (hour > 23)) + 1.2 * (country % 7 == 0)
    fraud = random.random(rows) < 1 / (1 + np.exp(-logit))
    fraud[:8] = True
    names = np.array([f"country {i}" for i in range(40)])[country]
    return pd.DataFrame({"amount": amount.round(2), "hour": hour.round(2), "country": names, "fraud": fraud})


def wide(random: Random, rows: int) -> pd.DataFrame:
    """Two hundred columns, of which four count."""
    X = random.normal(size=(rows, 200))
    y = 2 * X[:, 0] - X[:, 1] + X[:, 2] + 0.5 * X[:, 3] + 0.5 * random.normal(size=rows)
    return pd.DataFrame(X.round(4), columns=[f"gene {i}" for i in range(200)]).assign(yield_=y.round(4))


def many(random: Random, rows: int) -> pd.DataFrame:
    """A million rows."""
    X = random.uniform(-1, 1, size=(rows, 8)).astype(np.float32)
    y = (
        np.sin(3 * X[:, 0]) * X[:, 1]
        + X[:, 2] ** 2
        - 0.5 * X[:, 3]
        + (0.05 + 0.2 * (X[:, 4] > 0)) * random.normal(size=rows)
    )
    return pd.DataFrame(X.round(4), columns=list("abcdefgh")).assign(y=y.round(4))


def single(random: Random, rows: int) -> pd.DataFrame:
    """One column, and a mean and noise that vary along it."""
    x = random.uniform(0, 10, rows)
    y = np.sin(x) + 0.1 * x + (0.05 + 0.03 * x) * random.normal(size=rows)
    return pd.DataFrame({"x": x.round(3), "y": y.round(4)})


def constants(random: Random, rows: int) -> pd.DataFrame:
    """Columns that say nothing: all the same, all missing, all different; and one that counts."""
    x = random.normal(size=rows)
    return pd.DataFrame(
        {
            "plant": "north",
            "unit": 7,
            "checked": np.full(rows, np.nan),
            "serial": [f"{i:06d}-{i % 7}" for i in range(rows)],
            "load": x.round(3),
            "wear": (x + 0.5 * x**2 + 0.3 * random.normal(size=rows)).round(3),
        }
    )


def commas(random: Random, rows: int) -> pd.DataFrame:
    """Diabetes, as a German spreadsheet writes it."""
    return _diabetes(random, rows)


def latin(random: Random, rows: int) -> pd.DataFrame:
    """Cancer, with gaps, and labels and names that are not ASCII, in Latin-1."""
    data = load_breast_cancer(as_frame=True)
    kept = random.permutation(len(data.data))[:rows]
    table = data.data.iloc[kept, :10].rename(columns=lambda name: name.replace("mean ", "Ø ")).round(5)
    table = table.mask(random.random(table.shape) < 0.05)
    return table.assign(befund=np.where(data.target.iloc[kept] == 1, "gutartig", "bösartig"))


def doubles(random: Random, rows: int) -> pd.DataFrame:
    """Diabetes, in which a name stands twice and the first column has none."""
    table = _diabetes(random, rows)
    table.columns = ["bmi" if name in ("bp", "s5") else name for name in table.columns]
    return table


def _diabetes(random: Random, rows: int) -> pd.DataFrame:
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    table: pd.DataFrame = X.assign(progress=y + 0.5)
    return table.iloc[random.permutation(len(table))[:rows]].reset_index(drop=True)


CASES: dict[str, Case] = {
    "passengers": Case(891, "survived", passengers),
    "homes": Case(1_500, "price", homes),
    "sensors": Case(2_000, "signal", sensors),
    "counts": Case(2_000, "bicycles", counts),
    "rare": Case(3_000, "fraud", rare),
    "wide": Case(100, "yield_", wide),
    "many": Case(1_000_000, "y", many, lambda frame, path: frame.to_parquet(path)),
    "single": Case(500, "y", single),
    "constants": Case(400, "wear", constants),
    "commas": Case(442, "progress", commas, lambda frame, path: frame.to_csv(path, sep=";", decimal=",", index=False)),
    "latin": Case(
        569, "befund", latin, lambda frame, path: frame.to_csv(path, sep=";", index=False, encoding="latin-1")
    ),
    "doubles": Case(442, "progress", doubles, lambda frame, path: frame.to_csv(path)),
}


def write_case(name: str, folder: Path, rows: int | None = None, seed: int = 0) -> tuple[Path, NDArray[Any]]:
    """Writes a table, and gives its file and its targets.

    Args:
        name: Which.
        folder: Where to.
        rows: How many rows; as usual by default.
        seed: Of all randomness.
    """
    case = CASES[name]
    table = case.make(np.random.default_rng(seed), case.rows if rows is None else rows)
    path = folder / f"{name}.{'parquet' if name == 'many' else 'csv'}"
    case.write(table, path)
    return path, table[case.target].to_numpy()
