"""A report as Markdown, with links to the figures beside it."""

import re
from collections.abc import Iterable
from os.path import relpath
from pathlib import Path
from urllib.parse import quote

from actgp_experiments.report.blocks import Block, Document, Entry, Heading, Paragraph, Picture, Table

SPECIAL = re.compile(r"[\\`*_{}\[\]<>#|~$&!]")
LEADING = re.compile(r"^(\d*)([-+.)])(?=[\s-]|$)")  # would begin a list, or draw a line


def write_markdown(path: Path, document: Document) -> Path:
    """Writes a document as Markdown."""
    parts = [f"# {escape(document.title)}", *(_block(block, path.parent) for block in document.blocks)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return path


def escape(text: str) -> str:
    """Text on one line that Markdown shows as it is."""
    line = SPECIAL.sub(r"\\\g<0>", " ".join(text.split()))
    return LEADING.sub(r"\1\\\2", line)


def _block(block: Block, folder: Path) -> str:
    match block:
        case Heading():
            return f"## {escape(block.text)}"
        case Paragraph():
            return escape(block.text)
        case Table():
            return _table(block)
        case Picture():
            link = quote(Path(relpath(block.path, folder)).as_posix())
            return f"![{escape(block.alt)}]({link})\n\n{escape(block.caption)}"


def _table(table: Table) -> str:
    rule = _line(["---"] + ["---:"] * (len(table.columns) - 1))
    head = _line(escape(entry.text) for entry in table.columns)
    return "\n".join([f"{escape(table.title)}:\n", head, rule, *(_line(map(_entry, row)) for row in table.rows)])


def _entry(entry: Entry) -> str:
    return f"**{escape(entry.text)}**" if entry.best else escape(entry.text)


def _line(texts: Iterable[str]) -> str:
    return f"| {' | '.join(texts)} |"
