"""The page of docs/browser asks an exported file in Chromium; it needs npm's onnxruntime-web, in docs/browser."""

import json
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from axe_playwright_python.sync_playwright import Axe
from torch import Tensor

import actgp

if TYPE_CHECKING:
    from playwright.sync_api import Browser

EXAMPLE = Path(__file__).parents[2] / "docs/browser"
RUNTIME = EXAMPLE / "node_modules"
pytestmark = pytest.mark.skipif(not RUNTIME.is_dir(), reason="npm install in docs/browser brings onnxruntime-web")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@pytest.fixture(scope="module")
def site(student: actgp.Student, rows: Tensor, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The page beside a student and its sliders, served on this machine."""
    folder = tmp_path_factory.mktemp("site")
    for name in ("index.html", "explore.mjs"):
        shutil.copy(EXAMPLE / name, folder)
    (folder / "node_modules").symlink_to(RUNTIME.resolve())
    actgp.export(student, folder / "model.onnx", rows.float())
    columns = [{"name": name, "low": -2.0, "high": 2.0, "start": 0.0} for name in "abc"]
    about = {"target": "y", "level": 0.95, "low": -3.0, "high": 3.0, "columns": columns}
    (folder / "columns.json").write_text(json.dumps(about))
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_sliders_move_the_prediction_and_its_interval(browser: "Browser", site: str, student: actgp.Student) -> None:
    amiss: list[str] = []
    page = browser.new_context(viewport={"width": 390, "height": 844}).new_page()
    page.on("console", lambda message: amiss.append(message.text))
    page.on("pageerror", lambda error: amiss.append(str(error)))
    page.on(
        "request",
        lambda request: None if request.url.startswith((site, "data:", "blob:")) else amiss.append(request.url),
    )
    page.goto(f"{site}/index.html")
    page.wait_for_selector("body[data-row]", state="attached", timeout=60_000)
    for row in ([0, 0, 0], [1.5, 0, 0], [1.5, -1, 0]):
        for slider, value in zip(page.query_selector_all("input[type=range]"), row, strict=True):
            slider.evaluate(
                "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input')) }", value
            )
        said = student.predict(torch.tensor([row]).double())
        lower, upper = said.interval(0.95)
        page.wait_for_selector(f'body[data-row="{",".join(map(str, row))}"]', state="attached")
        for name, wanted in (("mean", [said.mean]), ("interval", [lower, upper])):
            shown = (
                page.inner_text(f"#{name}").replace("95 % interval:", "").replace("\N{MINUS SIGN}", "-").split(" to ")
            )
            assert [float(word) for word in shown] == pytest.approx(
                [value.item() for value in wanted], rel=2e-3, abs=2e-3
            )
        share = 100 * (said.epistemic_std / said.std).square().item()
        assert abs(float(page.inner_text("#share").split()[2]) - share) < 0.6
        assert 0 < float(page.eval_on_selector("#band", "band => parseFloat(band.style.width)")) < 100
    width, room = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert width <= room
    assert [each["id"] for each in Axe().run(page).response["violations"]] == []
    assert amiss == []
