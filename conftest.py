"""Shared fixtures: both precisions, one tolerance table, explicit generators."""

import importlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import gpytorch.likelihoods
import pytest
import torch
from hypothesis import settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser

if not hasattr(gpytorch.likelihoods, "PoissonLikelihood"):  # before gpytorch 1.15
    tests = (Path(__file__).parent / "tests").glob("**/test_*.py")
    collect_ignore = [path for path in tests if "PoissonLikelihood" in path.read_text()]

torch.set_num_threads(1)  # matrices are small, and the tests run in parallel already
settings.register_profile("actgp", derandomize=True, deadline=None, max_examples=25)
settings.load_profile("actgp")


@pytest.fixture(params=[torch.float32, torch.float64], ids=["float32", "float64"])
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    return request.param


@pytest.fixture
def tolerance(dtype: torch.dtype) -> dict[str, float]:
    """For quantities that a few dozen operations lead to."""
    return {torch.float32: {"rtol": 1e-4, "atol": 1e-5}, torch.float64: {"rtol": 1e-10, "atol": 1e-12}}[dtype]


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture(autouse=True)
def seeded() -> None:
    """What draws without a generator, such as torch's own layers, draws the same in every run."""
    torch.manual_seed(0)


@pytest.fixture
def small_conversions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer rows for each sweep of a conversion, which small networks do not need."""
    sweeps, rows, build = (importlib.import_module(f"actgp.weights.{name}") for name in ("sweeps", "rows", "build"))
    monkeypatch.setattr(sweeps, "ROWS", 400)
    monkeypatch.setattr(sweeps, "SWEEPS", 6)
    monkeypatch.setattr(rows, "JUDGED", 300)
    monkeypatch.setattr(rows, "SYNTHETIC", 500)
    monkeypatch.setattr(build, "FEWEST_ROWS", 600)
    monkeypatch.setattr(build, "FEWEST_FEATURES", 64)
    monkeypatch.setattr(build, "SHARPNESSES", (2.0, 4.0))


@pytest.fixture(scope="session")
def browser() -> Iterator["Browser"]:
    """A headless Chromium; tests that look at a page are skipped where there is none."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    executable = next(filter(None, map(shutil.which, names)), None)
    if executable is None:
        pytest.skip("no Chromium on the PATH")
    sync_api = pytest.importorskip("playwright.sync_api")
    quiet = ["--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox", "--disable-gpu", *quiet])
        yield opened
        opened.close()
