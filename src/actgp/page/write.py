"""The page: a template, its style and scripts, the numbers, and the student, in one file."""

import json
from html import escape
from importlib.resources import files
from pathlib import Path

from actgp.distil import javascript
from actgp.persistence import archive
from actgp.tabular import TableModel

SCRIPTS = ("d3.min.js", "plot.umd.min.js", "charts.js", "explorer.js", "page.js")


def write_page(model: TableModel, path: Path) -> None:
    """Writes a table's page, all of it at once.

    Args:
        model: A table's model with the numbers of its page.
        path: The HTML file.
    """
    archive.write_bytes(path, page_of(model).encode("utf-8"))


def page_of(model: TableModel) -> str:
    """The page as text."""
    about = json.loads(model.page)
    parts = {
        "title": escape(f"{model.target}: {about['task']} with actgp"),
        "style": _asset("page.css"),
        "numbers": model.page.replace("<", "\\u003c"),
        "student": _inside_script(javascript(model.student)),
        "scripts": "\n".join(f"<script>\n{_inside_script(_asset(name))}\n</script>" for name in SCRIPTS),
    }
    page = _asset("page.html")
    before, *places = page.split("{{")
    pieces = [before]
    for place in places:
        name, _, text = place.partition("}}")
        pieces += [parts[name.strip()], text]
    return "".join(pieces)


def _asset(name: str) -> str:
    return files("actgp.page").joinpath("assets", name).read_text(encoding="utf-8")


def _inside_script(source: str) -> str:
    """Text that does not end the script it stands in."""
    return source.replace("</script", "<\\/script")
