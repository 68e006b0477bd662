import json
import math
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save, save_file

import actgp
from actgp.persistence import archive


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def small() -> dict[str, torch.Tensor]:
    return {"a": torch.arange(6.0).reshape(2, 3), "b": torch.tensor([True, False])}


def rewritten(path: Path, document: str = "{}", **changes: str) -> Path:
    """A file whose digest is right, whatever its metadata say."""
    metadata = {"format": "actgp", "version": "2", "library": "0", "kind": "model", "document": document} | changes
    metadata = {key: value for key, value in metadata.items() if value}
    path.write_bytes(save(small(), metadata | {"digest": archive._digest(metadata, small())}))
    return path


def test_tensors_come_back_bit_for_bit(tmp_path: Path) -> None:
    base = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
    tensors = {
        "float32": base,
        "float64": base.double() / 3,
        "transposed": base.T,
        "strided": base[::2, 1::2],
        "alias": base[1],
        "expanded": base[0].expand(3, 6),
        "scalar": torch.tensor(0.1),
        "none": torch.zeros(0, 3),
        "int64": torch.tensor([-(2**63), 2**63 - 1]),
        "bool": torch.tensor([[True], [False]]),
        "uint8": torch.arange(256).to(torch.uint8),
        "half": base.half(),
        "bfloat16": base.bfloat16(),
        "special": torch.tensor([math.nan, -math.nan, math.inf, -0.0, 1e-45]),
        "parameter": torch.nn.Parameter(base),
        "a name. with/everything é": base,
    }
    archive.write(tmp_path / "file", "model", {}, tensors)
    contents = archive.read(str(tmp_path / "file"))
    assert contents.kind == "model"
    assert list(contents.tensors) == sorted(tensors)
    for name, tensor in tensors.items():
        back = contents.tensors[name]
        assert (back.dtype, back.shape, back.device.type) == (tensor.dtype, tensor.shape, "cpu")
        assert bits(back) == bits(tensor.detach()), name
        assert not back.requires_grad
    contents.tensors["alias"].zero_()
    assert bits(contents.tensors["float32"]) == bits(base)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), values, max_size=4))
def test_documents_come_back_exactly(document: dict[str, object]) -> None:
    data = archive._encode("anything", document, {})
    assert repr(archive._decode(data, "file")) == repr(archive.Contents("anything", document, {}))


def test_the_digest_does_not_depend_on_the_order_of_tensors() -> None:
    assert archive._digest({}, small()) == archive._digest({}, dict(reversed(small().items())))


def test_the_file_is_safetensors_that_others_can_read(tmp_path: Path) -> None:
    archive.write(tmp_path / "file", "model", {"x": 1}, small())
    data = (tmp_path / "file").read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    assert header["__metadata__"]["library"] == actgp.__version__
    assert json.loads(header["__metadata__"]["document"]) == {"x": 1}
    assert header["a"]["shape"] == [2, 3]


@pytest.mark.parametrize("failing", ["os.fsync", "pathlib.Path.replace"])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive.write(tmp_path / "file", "model", {"x": 1}, small())

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(failing, fail)
        with pytest.raises(KeyboardInterrupt):
            archive.write(tmp_path / "file", "model", {"x": 2}, small())
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert archive.read(tmp_path / "file").document == {"x": 1}
    archive.write(tmp_path / "file", "model", {"x": 2}, small())
    assert archive.read(tmp_path / "file").document == {"x": 2}
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_link_stays_a_link_and_a_file_has_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    archive.write(tmp_path / "link", "model", {}, small())
    assert (tmp_path / "link").is_symlink()
    assert archive.read(tmp_path / "file").kind == "model"
    (tmp_path / "other").touch()
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_what_cannot_be_written_is_refused_before_a_file_is_touched(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for number in (math.nan, math.inf):
        with pytest.raises(ValueError, match="JSON's types with finite numbers, got one that is not .*; convert its"):
            archive.write(path, "model", {"x": [number]}, {})
    with pytest.raises(ValueError, match="JSON's types with finite numbers, got one that is not .*Tensor"):
        archive.write(path, "model", {"x": torch.zeros(1)}, {})
    for document in ({"x": (1, 2)}, {1: "x"}):
        with pytest.raises(ValueError, match="the same after a turn through JSON, got one that is not; use lists"):
            archive.write(path, "model", document, {})
    with pytest.raises(TypeError, match="document must be a dictionary, got list; pass"):
        archive.write(path, "model", [], {})  # type: ignore[arg-type]
    for kind in ("", "modèle", None):
        with pytest.raises(ValueError, match=f"kind must be a word in ASCII, got {kind!r}; pass"):
            archive.write(path, kind, {}, {})  # type: ignore[arg-type]
    for name in ("__metadata__", "\ud800", 3):
        with pytest.raises(ValueError, match="name must be a printable string other than '__metadata__', got .*; ren"):
            archive.write(path, "model", {}, {name: torch.zeros(1)})  # type: ignore[dict-item]
    for bad in ([1.0], torch.zeros(1, dtype=torch.complex64), torch.eye(2).to_sparse()):
        with pytest.raises(TypeError, match="x must be a dense tensor of real numbers, .*, got .*; convert it"):
            archive.write(path, "model", {}, {"x": bad})  # type: ignore[dict-item]
    assert not list(tmp_path.iterdir())


def test_headers_that_could_not_be_read_are_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "LARGEST_HEADER", 1_000)
    with pytest.raises(ValueError, match=r"must fit into 1000 bytes, got \d+; put long lists of numbers into tensors"):
        archive.write(tmp_path / "file", "model", {"x": list(range(1_000))}, {})
    assert not list(tmp_path.iterdir())


def test_places_that_are_no_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="the directory of a file must exist, got '.*absent', .*; create it"):
        archive.write(tmp_path / "absent" / "file", "model", {}, {})
    with pytest.raises(IsADirectoryError, match="path must name a file, got the directory .*; add a file name to it"):
        archive.write(tmp_path, "model", {}, {})
    with pytest.raises(IsADirectoryError, match="path must name a file, got the directory .*; add the file's name"):
        archive.read(tmp_path)
    with pytest.raises(FileNotFoundError, match="must name a file that exists, got '.*absent'; check its spelling"):
        archive.read(tmp_path / "absent")


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    torch.save({"x": 1}, path)
    pickled = path.read_bytes()
    for data in (b"", b"text", b"\0" * 100, b"\xff" * 100, pickled, b"\x02\0\0\0\0\0\0\0[]"):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=f"must be an actgp file, got {len(data)} bytes that are none .*; it is"):
            archive.read(path)
    for metadata in (None, {}, {"format": "pt"}):
        save_file(small(), path, metadata)
        with pytest.raises(ValueError, match="must be an actgp file, got a safetensors file of another program; read"):
            archive.read(path)


def test_kinds_versions_and_digests_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert archive.read(rewritten(path), "model").document == {}
    with pytest.raises(ValueError, match="must hold a file of kind 'checkpoint', got 'model'; choose another file"):
        archive.read(path, "checkpoint")
    with pytest.raises(ValueError, match="must have format version 2, got '3', written by actgp '9'; read it with"):
        archive.read(rewritten(path, version="3", library="9"))
    path.write_bytes(rewritten(path).read_bytes().replace(b'"kind":"model"', b'"kind":"motel"'))
    with pytest.raises(ValueError, match="must have the digest that was written into it, .*, got .*; the file is dam"):
        archive.read(path)
    for name in ("kind", "document"):
        with pytest.raises(ValueError, match="must have the digest"):
            archive.read(rewritten(path, **{name: ""}))


@pytest.mark.parametrize(
    "text", ["{", "NaN", '{"x": Infinity}', '{"x": 1e999}', "[" * 10**5, '{"x": ' + "9" * 5000 + "}"]
)
def test_documents_that_are_no_json_are_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must be JSON, got text that is not .*; write it with actgp"):
        archive.read(rewritten(tmp_path / "file", text))


@pytest.mark.parametrize("text", ["[]", "3", "null", '"x"'])
def test_documents_that_are_no_dictionaries_are_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must be a dictionary, got (list|int|NoneType|str); write it with actgp"):
        archive.read(rewritten(tmp_path / "file", text))


@pytest.mark.parametrize("dtype", ["F8_E4M3", "C64", "I16"])
def test_dtypes_that_were_not_written_are_found_out(dtype: str, tmp_path: Path) -> None:
    data = archive._encode("model", {}, {"a": torch.zeros(4)})
    changed = data.replace(b'"F32"', f'"{dtype}"'.encode())
    extra = len(changed) - len(data)
    size = int.from_bytes(data[:8], "little") + extra
    with pytest.raises(ValueError, match="must (be an actgp file|have the digest)"):
        archive._decode(size.to_bytes(8, "little") + changed[8:], "file")


def test_every_flipped_bit_is_found_or_harmless() -> None:
    data = archive._encode("model", {"x": 0.1}, small())
    original = archive._decode(data, "file")
    for position in range(len(data)):
        for bit in (0, 3, 5, 7):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            try:
                contents = archive._decode(bytes(damaged), "file")
            except ValueError as error:
                assert "'file' must" in str(error)
                continue
            assert contents[:2] == original[:2]
            assert {k: bits(v) for k, v in contents.tensors.items()} == {
                k: bits(v) for k, v in original.tensors.items()
            }


def test_every_truncation_is_found() -> None:
    data = archive._encode("model", {"x": 0.1}, small())
    for length in range(len(data)):
        with pytest.raises(ValueError, match="must be an actgp file"):
            archive._decode(data[:length], "file")
    with pytest.raises(ValueError, match="must be an actgp file"):
        archive._decode(data + b"\0", "file")
