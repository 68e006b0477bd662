from dataclasses import dataclass, field
from pathlib import Path

import numpy as np


@dataclass
class Server:
    """A server on this machine that answers every request alike, or from its files if it has any, and counts them."""

    address: str = ""
    body: bytes = b""
    files: dict[str, bytes] = field(default_factory=dict)
    status: int = 200
    missing: int = 0  # bytes that are announced and never come
    requests: int = 0


def lines(table: np.ndarray) -> bytes:
    return "".join("\t".join(map(str, row)) + " \n" for row in table.tolist()).encode()


def contents(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
