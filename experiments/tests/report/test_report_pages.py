"""The report as HTML and Markdown: whole tables, nothing outside, text as it was written, and fit for a phone."""

import html
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

import grid
import pytest

from actgp_experiments.report import write_report
from actgp_experiments.report.markdown import escape
from actgp_experiments.report.metrics import COVERAGE, NLPD, RMSE

COMMENTARY = "Ours is <b>best</b> & *cheap*.\nSecond line.\n\n\n1. not a list | [no link](x)\n"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
MEASURE = """
<script>
addEventListener("load", () => {
  const found = [...document.querySelectorAll("iframe")].map(frame => {
    const page = frame.contentDocument, scrolls = [...page.querySelectorAll(".scroll")];
    return {
      width: frame.contentWindow.innerWidth,
      scrollWidth: page.documentElement.scrollWidth,
      images: [...page.images].map(image => image.naturalWidth),
      scrolling: scrolls.filter(box => box.scrollWidth > box.clientWidth).length,
      widest: Math.max(...scrolls.map(box => box.getBoundingClientRect().right)),
    };
  });
  document.body.innerHTML = "<pre>" + JSON.stringify(found) + "</pre>";
});
</script>
"""


class Report(NamedTuple):
    paths: list[Path]
    html: str
    markdown: str


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """An unfinished grid: SVGP lacks some splits of one data set, linear lacks another data set."""
    folder = tmp_path_factory.mktemp("report")
    lines = [r for r in grid.without("SVGP", "middle", [1, 4]) if (r["model"], r["data"]) != ("linear", "large")]
    results = grid.write(folder / "results.jsonl", lines, end='{"half": ')
    banana = grid.write(folder / "banana.jsonl", grid.banana_records())
    (folder / "text.txt").write_text(COMMENTARY, encoding="utf-8")
    page, markdown = folder / "site" / "index.html", folder / "docs" / "some results.md"
    ablation = grid.write(folder / "ablation.jsonl", [r for r in grid.records() if r["data"] != "large"])
    paths = write_report(results, page, markdown, banana=banana, ablation=ablation, commentary=folder / "text.txt")
    return Report(paths, page.read_text(encoding="utf-8"), markdown.read_text(encoding="utf-8"))


class Tables(HTMLParser):
    """All tables of a page, as captions and rows of texts."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: dict[str, list[list[str]]] = {}
        self.inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside.append(tag)
        if tag == "tr":
            self.tables[self.title].append([])
        if tag in ("th", "td"):
            self.tables[self.title][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        while self.inside.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if "caption" in self.inside and data.strip():
            self.title = data
            self.tables[data] = []
        elif {"th", "td"} & set(self.inside):
            self.tables[self.title][-1][-1] += data


def parsed(text: str) -> Tables:
    tables = Tables()
    tables.feed(text.replace("\N{NO-BREAK SPACE}", " "))
    return tables


def test_written_files(report: Report) -> None:
    folder = report.paths[1].parent
    pictures = [folder / f"some results_{name}.png" for name in ("scores", "calibration", "cost")]
    assert report.paths == [folder.parent / "site" / "index.html", folder / "some results.md", *pictures]
    assert all(path.stat().st_size for path in report.paths)


def test_the_page_needs_nothing_outside(report: Report) -> None:
    assert not re.search(r"https?://|<link|<script|@import|url\(", report.html)
    assert not re.search(r'(src|href)="(?!data:)', report.html)
    assert report.html.count('<img alt="') == report.html.count("data:image/png;base64,") == 3
    assert 'alt=""' not in report.html
    assert report.html.count("<h1>") == 1


def test_tables_have_all_their_cells(report: Report) -> None:
    tables = parsed(report.html).tables
    shapes = {title: (len(rows), *{len(row) for row in rows}) for title, rows in tables.items()}
    assert shapes == {
        "Median NLPD; lower is better": (5, 4),
        "Median RMSE; lower is better": (5, 4),
        "Median CRPS; lower is better": (5, 4),
        "Median coverage of 95 % intervals; closer to 95 % is better": (5, 4),
        "Average ranks: 2 models over 3 data sets": (3, 4),
        "Average ranks of all models: 4 models over 1 data set": (5, 4),
        "The model with the lowest median on each data set": (4, 4),
        "Data sets on which the model of the row has a lower median NLPD than the model of the column": (5, 5),
        "Median training time in seconds": (5, 4),
        "Median NLPD with one ingredient taken out at a time": (5, 3),
        "Median RMSE with one ingredient taken out at a time": (5, 3),
        "Median CRPS with one ingredient taken out at a time": (5, 3),
        "Banana data: median over seeds, and quartiles in brackets": (5, 6),
        "Median NLPD in the units of the data": (5, 4),
        "Median RMSE in the units of the data": (5, 4),
        "Splits that have run": (5, 4),
    }


def test_tables_say_what_was_found(report: Report) -> None:
    tables = parsed(report.html).tables
    assert tables["Median NLPD; lower is better"] == [
        ["model", "small (100, 2)", "middle (200, 3)", "large (1000, 4)"],
        ["ADGP, ours", "−0.800", "0.700", "−1.800"],
        ["network", "0.200", "0.200", "−0.800"],
        ["SVGP", "1.200", "1.100 *", "0.200"],
        ["linear", "2.200", "2.200", "–"],
    ]
    best = re.findall(r"<strong>(.*?)</strong>", report.html)
    assert best[:3] == ["−0.800", "−1.800", "0.200"]  # row by row
    coverage = tables["Median coverage of 95 % intervals; closer to 95 % is better"]
    assert coverage[1] == ["ADGP, ours", "94.0 %", "94.0 %", "94.0 %"]
    assert best.count("94.0 %") == 3
    pairs = tables["Data sets on which the model of the row has a lower median NLPD than the model of the column"]
    assert pairs[1:] == [
        ["ADGP, ours", "–", "2 of 3", "2 of 2", "2 of 2"],
        ["network", "1 of 3", "–", "2 of 2", "2 of 2"],
        ["SVGP", "0 of 2", "0 of 2", "–", "1 of 1"],
        ["linear", "0 of 2", "0 of 2", "0 of 1", "–"],
    ]
    assert [row[1] for row in tables["The model with the lowest median on each data set"][1:]] == [
        "ADGP, ours",
        "network",
        "ADGP, ours",
    ]
    assert tables["Splits that have run"][3:] == [
        ["SVGP", "5 of 5", "3 of 5", "5 of 5"],
        ["linear", "5 of 5", "5 of 5", "–"],
    ]
    assert "left out of it (SVGP: middle; linear: large)" in html.unescape(report.html)


def test_both_outputs_have_the_same_tables(report: Report) -> None:
    rows = [line for line in report.markdown.splitlines() if line.startswith("|")]
    cells = [[cell.replace("\\", "").strip(" *") for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]
    shown = [[cell.strip(" *") for cell in row] for table in parsed(report.html).tables.values() for row in table]
    assert [row for row in cells if set(row[1:]) != {"---:"}] == shown
    assert report.markdown.count("**") == 2 * report.html.count("<strong>")


def test_pictures_stand_beside_the_markdown(report: Report) -> None:
    links = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", report.markdown)
    assert links == [f"some%20results_{name}.png" for name in ("scores", "calibration", "cost")]


def test_the_commentary_stands_under_the_main_table_as_it_was_written(report: Report) -> None:
    first = "<p>Ours is &lt;b&gt;best&lt;/b&gt; &amp; *cheap*.\nSecond line.</p>\n<p>1. not a list | [no link](x)</p>"
    assert first in report.html
    assert report.html.index("Median NLPD") < report.html.index(first) < report.html.index("Median RMSE")
    assert r"Ours is \<b\>best\</b\> \& \*cheap\*. Second line." in report.markdown
    assert r"1\. not a list \| \[no link\](x)" in report.markdown


@pytest.mark.parametrize(
    ("text", "expected"),
    [("- a", r"\- a"), ("---", r"\---"), ("12) a", r"12\) a"), ("0.5", "0.5"), ("# a_b", r"\# a\_b"), ("a\n b", "a b")],
)
def test_markdown_shows_text_as_it_is(text: str, expected: str) -> None:
    assert escape(text) == expected


def test_numbers() -> None:
    assert [RMSE.text(value) for value in (0.0412, 0.4, 12.345, 0.0, 115.2, 999.7)] == [
        *("0.0412", "0.400", "12.3", "0.00", "115", "1,000")
    ]
    assert [RMSE.text(value) for value in (12345.6, 1e-7, float("inf"))] == ["12,346", "1.00e−07", "failed"]
    assert [NLPD.text(value) for value in (-1.9, 0.03456, 1234.5)] == ["−1.900", "0.035", "1,234"]
    assert COVERAGE.text(0.9512) == "95.1 %"


def test_a_small_finished_grid_without_extras(tmp_path: Path) -> None:
    lines = [grid.cell("small", "linear", split) for split in range(2)]
    for line in lines:
        del line["versions"], line["metrics"]["nlpd_original"]
        line["model"] = "a <b>|"
    page = tmp_path / "index.html"
    assert write_report(grid.write(tmp_path / "results.jsonl", lines), page) == [page]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index.html", "results.jsonl"]
    text = page.read_text(encoding="utf-8")
    assert "a &lt;b&gt;|" in text
    assert "Not everything has run" not in text
    assert "A dash" not in text
    assert "in the units of the data" not in text
    assert "1 model on 1 data set with 2 splits" in text


def test_more_splits_stand_beside_published_tables(tmp_path: Path) -> None:
    paths = write_report(
        grid.write(tmp_path / "uci.jsonl", grid.records()),
        tmp_path / "report.html",
        tmp_path / "report.md",
        splits=grid.write(tmp_path / "splits.jsonl", [r for r in grid.records() if r["model"] == "network"]),
    )
    text = paths[1].read_text(encoding="utf-8")
    # offsets 0, .4, .1, .3, .2 have the mean .2, the standard deviation √.025, and the standard error .0707
    assert "| network | small (100, 2) | 5 | −2.200 ± 0.071 | 32.0 ± 0.71 |" in text


def test_before_any_model_is_complete_there_are_no_ranks(tmp_path: Path) -> None:
    lines = [grid.cell("small", "SVGP", 0), grid.cell("small", "network", 1)]
    page, *_ = write_report(grid.write(tmp_path / "results.jsonl", lines), tmp_path / "index.html")
    assert "No model has all splits of any data set yet." in page.read_text(encoding="utf-8")


def test_without_a_common_data_set_there_is_one_table_of_ranks(tmp_path: Path) -> None:
    lines = [grid.cell("small", model, 0) for model in ("SVGP", "network")] + [grid.cell("large", "linear", 0)]
    page, *_ = write_report(grid.write(tmp_path / "results.jsonl", lines), tmp_path / "index.html")
    text = page.read_text(encoding="utf-8")
    assert "A dash: not run on that data set." in text
    assert "Not everything has run" not in text
    assert "(linear: small). There is no data set that all models have." in text
    assert text.count("Average ranks") == 2  # the caption, and the name of its region


def test_a_commentary_that_is_not_there_is_refused(tmp_path: Path) -> None:
    results = grid.write(tmp_path / "results.jsonl", grid.records())
    with pytest.raises(FileNotFoundError, match="the commentary must be a text file, got '.*none.txt', which is not"):
        write_report(results, tmp_path / "index.html", commentary=tmp_path / "none.txt")
    (tmp_path / "other.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="the commentary must be text in UTF-8, got .*other.txt', .*; save it as such"):
        write_report(results, tmp_path / "index.html", commentary=tmp_path / "other.txt")


def test_the_page_fits_wide_and_narrow_screens(report: Report, tmp_path: Path) -> None:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip(f"needs a browser, one of {', '.join(BROWSERS)}")
    frames = [
        f'<iframe style="border: 0; width: {width}px; height: 900px" srcdoc="{html.escape(report.html)}"></iframe>'
        for width in (1200, 400)
    ]
    wrapper = tmp_path / "wrapper.html"
    wrapper.write_text(f'<!doctype html><meta charset="utf-8">{MEASURE}<body>{"".join(frames)}', encoding="utf-8")
    flags = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-sync"
    more = ["--disable-component-update", f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1300,900"]
    command = [browser, *flags.split(), *more, "--dump-dom", wrapper.as_uri()]
    dumped = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    match = re.search(r"<pre>(\[.*?\])</pre>", dumped)
    assert match, dumped[-500:]
    wide, narrow = json.loads(match[1])
    assert (wide["width"], narrow["width"]) == (1200, 400)
    for page in (wide, narrow):
        assert page["scrollWidth"] <= page["width"]
        assert page["widest"] <= page["width"]
        assert len(page["images"]) == 3
        assert min(page["images"]) > 0
    assert wide["scrolling"] == 0
    assert narrow["scrolling"] > 0  # wide tables scroll by themselves
