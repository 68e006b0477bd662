"""A report as one HTML page, with nothing outside it, for wide and narrow screens, light and dark."""

import base64
from collections.abc import Sequence
from html import escape
from pathlib import Path

from actgp_experiments.report.blocks import Block, Document, Entry, Heading, Paragraph, Picture, Table

STYLE = """
:root { color-scheme: light dark; --text: #222; --back: #fff; --soft: #666; --line: #ddd; --ours: #b34700 }
@media (prefers-color-scheme: dark) {
  :root { --text: #ddd; --back: #16181b; --soft: #a0a0a0; --line: #3a3d42; --ours: #ff9a57 }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back); margin: 0 }
main { max-width: 72rem; margin: 2rem auto; padding: 0 1rem; overflow-wrap: break-word }
h1 { line-height: 1.2 } h2 { margin: 2.5rem 0 .5rem; line-height: 1.25 }
p { max-width: 46rem }
.scroll { overflow-x: auto; margin: 1rem 0; max-width: 100% }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums }
caption { text-align: left; color: var(--soft); padding-bottom: .4rem }
caption span { position: sticky; left: 0; display: inline-block; max-width: min(46rem, calc(100vw - 2rem)) }
th, td { padding: .3rem .7rem; border-bottom: 1px solid var(--line); text-align: right }
td { white-space: nowrap }
thead th { vertical-align: bottom; font-weight: 600; max-width: 8rem }
tbody th { text-align: left; font-weight: 400; min-width: 9rem; max-width: 16rem }
tr > :first-child { text-align: left; position: sticky; left: 0; background: var(--back); padding-left: 0 }
th.ours, td.ours { color: var(--ours) } tbody th.ours { font-weight: 600 }
figure { margin: 1.5rem 0 } figcaption { color: var(--soft); font-size: .9rem; max-width: 46rem }
figure img { display: block; width: 100%; height: auto; background: #fff }
@media (max-width: 40rem) {
  main { margin-top: 1rem } th, td { padding: .3rem .5rem } tbody th { max-width: 8rem; min-width: 5rem }
}
"""
PIXELS_PER_INCH = 96  # a figure is shown at its own size where there is room …
LEAST_SHRINKING = 0.75  # … and not below this part of it: rather it scrolls


def write_page(path: Path, document: Document) -> Path:
    """Writes a document as HTML."""
    body = "\n".join(_block(block) for block in document.blocks)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>actgp: {escape(document.title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{escape(document.title)}</h1>\n{body}\n</main>\n</body>\n</html>\n",
        encoding="utf-8",
    )
    return path


def _block(block: Block) -> str:
    match block:
        case Heading():
            return f"<h2>{escape(block.text)}</h2>"
        case Paragraph():
            return f"<p>{escape(block.text)}</p>"
        case Table():
            return _table(block)
        case Picture():
            return _picture(block)


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col"{_kind(entry)}>{escape(entry.text)}</th>' for entry in table.columns)
    body = "\n".join(_row(row) for row in table.rows)
    title = escape(table.title)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{title}">\n'
        f"<table>\n<caption><span>{title}</span></caption>\n"
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n</div>"
    )


def _row(row: Sequence[Entry]) -> str:
    first, *others = row
    cells = "".join(f"<td{_kind(entry)}>{_emphasised(entry)}</td>" for entry in others)
    return f'<tr><th scope="row"{_kind(first)}>{escape(first.text)}</th>{cells}</tr>'


def _kind(entry: Entry) -> str:
    return ' class="ours"' if entry.ours else ""


def _emphasised(entry: Entry) -> str:
    return f"<strong>{escape(entry.text)}</strong>" if entry.best else escape(entry.text)


def _picture(picture: Picture) -> str:
    data = base64.b64encode(picture.path.read_bytes()).decode()
    width = round(PIXELS_PER_INCH * picture.width)
    size = f"max-width: {width}px; min-width: {round(LEAST_SHRINKING * width)}px"
    image = f'<img alt="{escape(picture.alt)}" style="{size}" src="data:image/png;base64,{data}">'
    region = f'<div class="scroll" role="region" tabindex="0" aria-label="Figure">{image}</div>'
    return f"<figure>{region}<figcaption>{escape(picture.caption)}</figcaption></figure>"
