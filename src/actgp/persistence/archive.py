"""One file for everything that is kept: a JSON document and tensors, written at once or not at all.

The file is a safetensors file. Its metadata hold the name and version of the format, the kind of contents, the
document, and a SHA-256 digest of all of these and of every tensor's name, dtype, shape and bytes: a file that changed
after it was written is found out. Reading never runs code from the file.
"""

import hashlib
import json
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from actgp.version import __version__

FORMAT = "actgp"
FORMAT_VERSION = 2
LARGEST_HEADER = 100_000_000  # bytes; safetensors reads no more
DTYPES = (
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
)


class Contents(NamedTuple):
    """What a file holds.

    Attributes:
        kind: What it is, such as "model" or "checkpoint".
        document: What JSON can say about it.
        tensors: Its tensors by name, on the CPU.
    """

    kind: str
    document: dict[str, Any]
    tensors: dict[str, Tensor]


def write(path: str | os.PathLike[str], kind: str, document: dict[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Writes a file, or leaves what was there untouched.

    Args:
        path: Where to; its directory must exist.
        kind: What the file is; `read` can insist on it.
        document: Dictionaries with string keys, lists, strings, booleans, None, integers and finite floats, which come
            back exactly.
        tensors: Tensors by name; any layout, device and sharing of memory, and each comes back bit for bit.
    """
    write_bytes(path, _encode(kind, document, tensors))


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Writes bytes to a file at once, or leaves what was there untouched; its directory must exist."""
    target = Path(path).resolve()  # what a symbolic link points to is replaced, not the link
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"the directory of a file must exist, got {str(target.parent)!r}, which does not; create it first"
        )
    if target.is_dir():
        raise IsADirectoryError(f"path must name a file, got the directory {str(target)!r}; add a file name to it")
    temporary = target.parent / f".{FORMAT}-{uuid.uuid4().hex}.tmp"
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read(path: str | os.PathLike[str], kind: str | None = None) -> Contents:
    """Reads a file that `write` has written, and checks that nothing in it has changed since.

    Args:
        path: The file.
        kind: What it must be; anything if None.
    """
    source = Path(path)
    if source.is_dir():
        raise IsADirectoryError(f"path must name a file, got the directory {str(source)!r}; add the file's name to it")
    if not source.exists():
        raise FileNotFoundError(f"path must name a file that exists, got {str(source)!r}; check its spelling")
    contents = _decode(source.read_bytes(), str(source))
    if kind is not None and contents.kind != kind:
        raise ValueError(
            f"{str(source)!r} must hold a file of kind {kind!r}, got {contents.kind!r}; choose another file, or read "
            "this one with what wrote it"
        )
    return contents


def _encode(kind: str, document: dict[str, Any], tensors: Mapping[str, Tensor]) -> bytes:
    if not isinstance(kind, str) or not kind or not kind.isascii():
        raise ValueError(f"kind must be a word in ASCII, got {kind!r}; pass e.g. 'model'")
    copies = {name: _copy(name, tensor) for name, tensor in tensors.items()}
    metadata = {
        "format": FORMAT,
        "version": str(FORMAT_VERSION),
        "library": __version__,
        "kind": kind,
        "document": _to_json(document),
    }
    data = save(copies, metadata | {"digest": _digest(metadata, copies)})
    size = int.from_bytes(data[:8], "little")
    if size > LARGEST_HEADER:
        raise ValueError(
            f"document and names of tensors must fit into {LARGEST_HEADER} bytes, got {size}; "
            "put long lists of numbers into tensors"
        )
    return data


def _copy(name: str, tensor: Tensor) -> Tensor:
    """A tensor of its own memory, contiguous, on the CPU."""
    if not isinstance(name, str) or not name.isprintable() or name == "__metadata__":
        raise ValueError(
            f"a tensor's name must be a printable string other than '__metadata__', got {name!r}; rename it"
        )
    if not isinstance(tensor, Tensor) or tensor.layout != torch.strided or tensor.dtype not in DTYPES:
        got = f"{tensor.layout} {tensor.dtype}" if isinstance(tensor, Tensor) else type(tensor).__name__
        raise TypeError(
            f"{name} must be a dense tensor of real numbers, integers or booleans, got {got}; convert it, or put it "
            "into the document"
        )
    return tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)


def _to_json(document: dict[str, Any]) -> str:
    if not isinstance(document, dict):
        raise TypeError(f"document must be a dictionary, got {type(document).__name__}; pass e.g. {{}}")
    try:
        text = json.dumps(document, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(
            f"document must be of JSON's types with finite numbers, got one that is not ({error}); "
            "convert its entries, and put NaN and infinity into tensors"
        ) from None
    if json.loads(text) != document:
        raise ValueError(
            "document must be the same after a turn through JSON, got one that is not; use lists instead of tuples, "
            "and strings as keys"
        )
    return text


def _decode(data: bytes, source: str) -> Contents:
    try:
        tensors = dict(sorted(load(data).items()))
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    # Besides its own error, safetensors lets through those of the tables and of the asserts inside it.
    except (SafetensorError, ValueError, RuntimeError, KeyError, TypeError, AssertionError) as error:
        raise ValueError(
            f"{source!r} must be an actgp file, got {len(data)} bytes that are none ({error}); it is damaged, cut "
            "short, or another program's: restore it from a copy"
        ) from None
    metadata = header.get("__metadata__") or {}
    if metadata.get("format") != FORMAT:
        raise ValueError(
            f"{source!r} must be an actgp file, got a safetensors file of another program; read it with "
            "safetensors.torch.load_file"
        )
    if metadata.get("version") != str(FORMAT_VERSION):
        raise ValueError(
            f"{source!r} must have format version {FORMAT_VERSION}, got {metadata.get('version')!r}, written by actgp "
            f"{metadata.get('library')!r}; read it with that version"
        )
    given = metadata.pop("digest", None)
    found = _digest(metadata, tensors)
    if given != found or not {"kind", "document"} <= metadata.keys():
        raise ValueError(
            f"{source!r} must have the digest that was written into it, {given!r}, got {found!r}; the file is damaged: "
            "restore it from a copy"
        )
    return Contents(metadata["kind"], _from_json(metadata["document"], source), tensors)


def _from_json(text: str, source: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
        json.dumps(document, allow_nan=False)  # Python reads NaN, Infinity and 1e999, too
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"the document of {source!r} must be JSON, got text that is not ({error}); write it with actgp"
        ) from None
    if not isinstance(document, dict):
        raise ValueError(
            f"the document of {source!r} must be a dictionary, got {type(document).__name__}; write it with actgp"
        )
    return document


def _digest(metadata: Mapping[str, str], tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of all metadata and tensors, each part with its length before it, so that none can pass for two."""
    parts: list[Any] = [part.encode() for key in sorted(metadata) for part in (key, metadata[key])]
    for name, tensor in sorted(tensors.items()):
        shape = f"{tensor.dtype} {list(tensor.shape)}"
        parts += [name.encode(), shape.encode(), tensor.reshape(-1).view(torch.uint8).numpy()]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()
