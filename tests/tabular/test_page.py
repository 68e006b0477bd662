"""The page in a browser: the explorer says what Python says; nothing is amiss, asked for elsewhere, or out of reach."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
import torch
from axe_playwright_python.sync_playwright import Axe

from actgp.page import write_page
from actgp.page.quality import calibration, probability_below, widths
from actgp.page.rounding import plain
from actgp.tabular import Fitting

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 900}
SERIOUS = ("serious", "critical")


def opened(browser: "Browser", path: Path, viewport: dict[str, int], scheme: str = "light") -> tuple["Page", list[str]]:
    """A page, and what it complained of or asked for."""
    amiss: list[str] = []
    page = browser.new_context(viewport=viewport, color_scheme=scheme).new_page()  # type: ignore[arg-type]
    page.on("console", lambda message: amiss.append(message.text))
    page.on("pageerror", lambda error: amiss.append(str(error)))
    page.on(
        "request", lambda request: amiss.append(request.url) if not request.url.startswith(("file:", "data:")) else None
    )
    page.goto(path.as_uri())
    page.wait_for_selector("#training figure svg")
    return page, amiss


@pytest.fixture(scope="module", params=["prices", "labels"])
def fitting(request: pytest.FixtureRequest) -> Fitting:
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def path(fitting: Fitting, tmp_path_factory: pytest.TempPathFactory) -> Path:
    write_page(fitting.model, path := tmp_path_factory.mktemp("page") / "page.html")
    return path


@pytest.mark.parametrize(("viewport", "scheme"), [(PHONE, "dark"), (DESK, "light")], ids=["phone, dark", "desk, light"])
def test_nothing_is_amiss(browser: "Browser", path: Path, viewport: dict[str, int], scheme: str) -> None:
    page, amiss = opened(browser, path, viewport, scheme)
    for summary in page.query_selector_all("summary"):
        summary.click()
    width, room = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert width <= room  # nothing sticks out
    assert page.query_selector_all("figure svg[role=img]:not([aria-label])") == []
    found = Axe().run(page).response["violations"]
    assert [(each["id"], each["impact"]) for each in found if each["impact"] in SERIOUS] == []
    assert amiss == []


def test_controls_move_what_is_predicted(browser: "Browser", path: Path) -> None:
    page, amiss = opened(browser, path, DESK)
    seen = [page.inner_text(".said")]
    size = page.get_by_label("size", exact=True)
    size.focus()
    for _ in range(20):
        page.keyboard.press("ArrowRight")
    seen.append(page.inner_text(".said"))
    page.get_by_label("town", exact=True).select_option(label="Bonn")
    seen.append(page.inner_text(".said"))
    page.get_by_label("missing").first.check()
    seen.append(page.inner_text(".said"))
    page.get_by_role("button", name="A test row").click()
    seen.append(page.inner_text(".said"))
    assert len(set(seen)) == 5
    assert "In this test row it was" in seen[-1]
    page.get_by_role("button", name="A typical row").click()
    assert page.inner_text(".said") == seen[0]
    assert amiss == []


def test_the_explorer_says_what_the_student_says(browser: "Browser", path: Path, fitting: Fitting) -> None:
    """Of test rows, gaps and unseen words among them: numbers are made of columns as in Python."""
    page, _ = opened(browser, path, DESK)
    page.evaluate(
        "() => { window.given = []; const own = student.predict;"
        "student.predict = (x) => { given.push(x); return own(x); } }"
    )
    for _ in range(len(fitting.test)):
        page.get_by_role("button", name="A test row").click()
    given: Any = page.evaluate("given")
    wanted = fitting.model.estimator.encode(fitting.test)
    np.testing.assert_allclose(given, wanted, rtol=1e-6, atol=1e-6)
    outputs = fitting.model.student.predict(torch.from_numpy(wanted[-1:]))
    shown = page.inner_text(".said .big")
    if fitting.model.task == "regression":
        assert float(shown.replace(",", "").replace("−", "-")) == pytest.approx(outputs[0].item(), rel=1e-3)
    else:
        assert shown == fitting.model.estimator.classes_[outputs[0].argmax().item()]


def test_the_page_holds_its_numbers_and_no_way_out(path: Path, fitting: Fitting) -> None:
    text = path.read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    assert len(text) < 2_000_000
    about = json.loads(fitting.model.page)
    assert about["target"] == fitting.model.target
    assert about["rows"] == {"train": 72, "test": 18}
    assert [column["name"] for column in about["columns"]] == fitting.train.columns.tolist()
    relevant = about["relevance"][0]["column"]
    assert relevant in ("size", "town")
    assert all(set(effect) == {"column", "scale", "values", "series"} for effect in about["effects"])


def test_partial_effects_are_means_over_rows(prices: Fitting) -> None:
    about = json.loads(prices.model.page)
    effect = next(each for each in about["effects"] if each["column"] == "garden")
    rows = prices.train.head(40)
    for value, mean in zip(effect["values"], effect["series"][0]["mean"], strict=True):
        said = prices.model.predict(rows.assign(garden=value == "true"))
        assert mean == pytest.approx(said["predicted_mean"].mean(), rel=1e-6)


def test_calibration_counts_targets_in_intervals(prices: Fitting) -> None:
    outputs, y = prices.outputs, prices.y
    found = calibration(probability_below(outputs, y))
    for level, covered in zip(found["levels"], found["covered"], strict=True):
        lower, upper = (ends.numpy() for ends in outputs.interval(level))
        assert covered == pytest.approx(np.mean((y >= lower) & (y <= upper)))
    assert sum(found["histogram"]) == pytest.approx(1)
    groups = widths(outputs, y)
    assert sum(groups["rows"]) == len(y)
    assert np.all(np.diff(groups["promised"]) > 0)


def test_names_and_words_cannot_break_the_page(browser: "Browser", prices: Fitting, tmp_path: Path) -> None:
    about = json.loads(prices.model.page)
    evil = "</script><script>window.broken = 1</script><b>&amp;"
    about["columns"][0]["name"] = about["effects"][0]["column"] = about["target"] = evil
    model = replace(prices.model, page=json.dumps(about), target=evil)
    write_page(model, tmp_path / "page.html")
    page, amiss = opened(browser, tmp_path / "page.html", DESK)
    assert page.evaluate("window.broken") is None
    assert page.inner_text("h1") == evil
    assert amiss == []


def test_numbers_become_json() -> None:
    values = {
        "a": np.float64(1 / 3),
        1: [np.int64(2), np.nan, np.inf],
        "b": np.array([True]),
        "t": pd.Timestamp("2020"),
    }
    assert plain(values) == {"a": 0.33333333, "1": [2, None, None], "b": [True], "t": "2020-01-01 00:00:00"}
