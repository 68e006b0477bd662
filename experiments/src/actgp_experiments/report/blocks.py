"""What a report is made of, before it is HTML or Markdown."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Heading:
    """The title of a section."""

    text: str


@dataclass(frozen=True)
class Paragraph:
    """Running text, without markup."""

    text: str


@dataclass(frozen=True)
class Entry:
    """A cell of a table.

    Attributes:
        text: What it says.
        best: Whether it is the best of its column.
        ours: Whether it names one of our own models.
    """

    text: str
    best: bool = False
    ours: bool = False


@dataclass(frozen=True)
class Table:
    """Rows under names of columns; the first entry of a row names it."""

    title: str
    columns: tuple[Entry, ...]
    rows: tuple[tuple[Entry, ...], ...]


@dataclass(frozen=True)
class Picture:
    """A figure.

    Attributes:
        path: Where it was written, as PNG.
        width: In inches, where text has its own size.
        alt: What it shows, for those who cannot see it.
        caption: How to read it.
    """

    path: Path
    width: float
    alt: str
    caption: str


Block = Heading | Paragraph | Table | Picture


@dataclass(frozen=True)
class Document:
    """A title and what stands under it."""

    title: str
    blocks: tuple[Block, ...]
