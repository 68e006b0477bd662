"""What the built wheel and source distribution in a folder hold, and what not: run by `make versions`."""

import sys
import tarfile
import zipfile
from pathlib import Path


def main(folder: Path) -> None:
    (wheel,), (source,) = folder.glob("actgp-*.whl"), folder.glob("actgp-*.tar.gz")
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
        metadata = next(file.read(name).decode() for name in names if name.endswith("METADATA"))
    root = Path(__file__).parent.parent
    files = [path for path in (root / "src" / "actgp").rglob("*") if path.is_file() and path.suffix != ".pyc"]
    sources = {path.relative_to(root / "src").as_posix() for path in files}
    assert "actgp/py.typed" in sources
    information = {name for name in names if ".dist-info/" in name}
    # The sources, all of them and nothing else: no tests, no experiments, no data.
    assert set(names) - information == sources, sorted(set(names) - information ^ sources)
    assert any(name.endswith("licenses/LICENSE") for name in information)
    assert "Requires-Python: >=3.11" in metadata
    assert "License-Expression: Apache-2.0" in metadata

    with tarfile.open(source) as file:
        held = {name.partition("/")[2] for name in file.getnames()}
    assert {f"src/{name}" for name in sources} | {"README.md", "LICENSE", "pyproject.toml"} <= held
    assert not [name for name in held if name.startswith(("tests", "experiments", "results", "docs"))]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
