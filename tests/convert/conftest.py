"""Small conversions: fewer rows for each sweep, which small networks do not need."""

import importlib

import pytest


@pytest.fixture(autouse=True)
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    sweeps, rows, build = (importlib.import_module(f"actgp.convert.{name}") for name in ("sweeps", "rows", "build"))
    monkeypatch.setattr(sweeps, "ROWS", 400)
    monkeypatch.setattr(sweeps, "SWEEPS", 6)
    monkeypatch.setattr(rows, "JUDGED", 300)
    monkeypatch.setattr(rows, "SYNTHETIC", 500)
    monkeypatch.setattr(build, "FEWEST_ROWS", 600)
    monkeypatch.setattr(build, "FEWEST_FEATURES", 64)
    monkeypatch.setattr(build, "SHARPNESSES", (2.0, 4.0))
