"""One HTML page with the demo's scores and pictures, which refers to no other file."""

import base64
from collections.abc import Sequence
from html import escape
from pathlib import Path

from actgp.demo import classification, regression

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 50rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0 }
th, td { padding: .3rem .8rem; border-bottom: 1px solid #ddd; text-align: right }
th:nth-child(-n+2), td:nth-child(-n+2) { text-align: left }
img { max-width: 100%; height: auto }
@media (max-width: 32rem) { table { font-size: .85rem } th, td { padding: .3rem } }
figure { margin: 1.5rem 0 } figcaption { color: #555; font-size: .9rem }
"""


def write_page(
    path: Path,
    regressions: Sequence[regression.Score],
    classifications: Sequence[classification.Score],
    pictures: dict[Path, str],
) -> Path:
    """Writes the tables and the pictures, each with its caption, into one HTML file."""
    parts = [
        "<h1>One model, a network and a deep Gaussian process</h1>",
        "<p>Each model was trained as a network, and then as a deep Gaussian process. Both are judged on held-out "
        "data; the network's variance is its training error.</p>",
        "<h2>Regression</h2>",
        _table(regression.COLUMNS, [score.row for score in regressions]),
        "<h2>Classification</h2>",
        _table(classification.COLUMNS, [score.row for score in classifications]),
        *(_figure(picture, caption) for picture, caption in pictures.items()),
    ]
    body = "\n".join(parts)
    path.write_text(
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>actgp: demo</title>\n<style>{STYLE}</style>\n{body}\n</html>\n",
        encoding="utf-8",
    )
    return path


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "\n".join("<tr>" + "".join(f"<td>{escape(value)}</td>" for value in row) + "</tr>" for row in rows)
    return f"<table>\n<tr>{head}</tr>\n{body.replace('>-', '>−')}\n</table>"  # true minus signs


def _figure(picture: Path, caption: str) -> str:
    data = base64.b64encode(picture.read_bytes()).decode()
    image = f'<img alt="{escape(caption)}" src="data:image/png;base64,{data}">'
    return f"<figure>{image}<figcaption>{escape(caption)}</figcaption></figure>"
