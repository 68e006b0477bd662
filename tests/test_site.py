"""The documentation site, built as `make docs` builds it: complete, linked, readable, and by itself."""

import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pytest

import actgp

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytest.importorskip("sphinx")
axe = pytest.importorskip("axe_playwright_python.sync_playwright")
ROOT = Path(__file__).parent.parent
# One page of each kind; to look at all of them takes minutes.
LOOKED_AT = ("docs/index", "docs/start", "docs/tutorials/network", "docs/maths", "docs/gallery", "docs/api/tables")
WIDTHS = (390, 1440)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    options = ["--fail-on-warning", "--keep-going", "-q", "-c", "docs"]
    command = [sys.executable, "-m", "sphinx", *options, ".", str(folder / "html"), "-d", str(folder / "doctrees")]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    return folder / "html"


class Addresses(HTMLParser):
    """What a page defines, leads to, and loads."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value is not None}
        self.names.update(given[name] for name in ("id", "name") if name in given)
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        self.loaded += [given[name] for name in ("src", "srcset", "data", "poster") if name in given]
        if tag == "link" and "href" in given:
            self.loaded.append(given["href"])


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Addresses]:
    return {path.resolve(): Addresses(path) for path in site.rglob("*.html")}


def test_links_and_anchors_lead_somewhere(pages: dict[Path, Addresses]) -> None:
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme:
                assert parts.scheme == "https", f"{path} links to {link}"
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.exists(), f"{path} links to {link}"
            if parts.fragment and target in pages:
                assert unquote(parts.fragment) in {"", "#", *pages[target].names}, f"{path} links to {link}"


def test_nothing_is_loaded_from_elsewhere(site: Path, pages: dict[Path, Addresses]) -> None:
    for path, page in pages.items():
        for address in page.loaded:
            parts = urlsplit(address)
            assert not parts.scheme or parts.scheme == "data", f"{path} loads {address}"
            assert not parts.netloc, f"{path} loads {address}"
            if not parts.scheme:
                assert (path.parent / unquote(parts.path)).exists(), f"{path} loads {address}"
    for style in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import )['\"]?(https?:)?//", style.read_text()), f"{style} loads something"


def test_every_public_name_is_in_the_reference_once() -> None:
    pages = [path.read_text() for path in sorted((ROOT / "docs" / "api").glob("*.md"))]
    listed = re.findall(r"^\.\. auto\w+:: actgp\.(\w+)$", "\n".join(pages), re.MULTILINE)
    assert sorted(listed) == sorted(actgp.__all__)
    of_botorch = re.findall(r"^\.\. auto\w+:: actgp\.botorch\.(\w+)$", "\n".join(pages), re.MULTILINE)
    botorch = pytest.importorskip("botorch") and actgp.botorch
    assert sorted(of_botorch) == sorted(botorch.__all__)


def test_the_gallery_shows_every_figure_with_its_code() -> None:
    figures = pytest.importorskip("actgp_experiments.figures").FIGURES
    gallery = (ROOT / "docs" / "gallery.md").read_text()
    for name in figures:
        assert f"(images/gallery/{name}.png)" in gallery
        assert f"`actgp figures {name}`" in gallery
        assert f"figures/{name}.py\n" in gallery


@pytest.fixture(params=["light", "dark"])
def opened(browser: "Browser", request: pytest.FixtureRequest) -> Iterator["Page"]:
    context = browser.new_context(color_scheme=request.param)
    yield context.new_page()
    context.close()


def test_pages_are_accessible_and_fit(site: Path, opened: "Page") -> None:
    requests: list[str] = []
    opened.on("request", lambda request: requests.append(request.url))
    for name in LOOKED_AT:
        opened.goto((site / f"{name}.html").as_uri())
        for width in WIDTHS:
            opened.set_viewport_size({"width": width, "height": 900})
            wider = opened.evaluate("document.documentElement.scrollWidth - window.innerWidth")
            assert wider <= 0, f"{name} is {wider} pixels wider than {width}"
        results = axe.Axe().run(opened)
        assert results.violations_count == 0, f"{name}: {results.generate_report()}"
    assert all(url.startswith(("file:", "data:")) for url in requests)
