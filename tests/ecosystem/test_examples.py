"""What docs/ecosystem.md shows runs as it stands; examples with packages that are not installed are skipped."""

import ast
import importlib.util
import re
from pathlib import Path

import pytest
import torch

PAGE = (Path(__file__).parents[2] / "docs" / "ecosystem.md").read_text()
FIRST, *EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
NAMES = {"ax-platform": "ax", "huggingface_hub": "hugging face hub", "mlflow-skinny": "mlflow"}
SHARED = [block for block in EXAMPLES if "def network" in block or "tempfile" in block]  # others build on these


def packages(block: str) -> list[str]:
    imports = [node for node in ast.walk(ast.parse(block)) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = [node.module if isinstance(node, ast.ImportFrom) else node.names[0].name for node in imports]
    wanted = ["tensorboard" if "tensorboard" in name else name.partition(".")[0] for name in names]
    return sorted(set(wanted) - {"actgp", "numpy", "pathlib", "sklearn", "tempfile", "torch"})


@pytest.fixture(scope="module")
def namespace() -> dict[str, object]:
    pytest.importorskip("matplotlib").use("agg")
    torch.manual_seed(0)
    found: dict[str, object] = {}
    for block in (FIRST, *SHARED):
        exec(compile(block, "ecosystem.md", "exec"), found)
    return found


@pytest.mark.parametrize("block", EXAMPLES, ids=lambda block: " ".join(packages(block)) or "alone")
def test_example(block: str, namespace: dict[str, object]) -> None:
    for package in packages(block):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"needs {package}")
    exec(compile(block, "ecosystem.md", "exec"), namespace)


def test_each_row_of_the_table_has_its_release(namespace: dict[str, object]) -> None:
    """The releases that the page names are those of requirements.txt."""
    pinned = dict(re.findall(r"^([\w-]+)==(\d+\.\d+)", Path(__file__).with_name("requirements.txt").read_text(), re.M))
    named = dict(re.findall(r"^\| \[([\w ]+)\]\([^)]*\) (\d[\d.]*) \|", PAGE, re.MULTILINE))
    for package, release in pinned.items():
        name = NAMES.get(package, package)
        assert {n.lower(): r for n, r in named.items()}[name] == release
