"""The nine layers of the library: one-way imports, true public names, small files."""

import ast
import importlib
import pkgutil
import re
import tomllib
from pathlib import Path

import jaxtyping
import pytest
import torch
from importlinter.cli import lint_imports

import actgp
import actgp_experiments

ROOT = Path(__file__).parent.parent
SOURCES = sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "experiments" / "src").rglob("*.py")])
PACKAGES = [
    "actgp",
    *(
        f"{package.__name__}.{module.name}"
        for package in (actgp, actgp_experiments)
        for module in pkgutil.iter_modules(package.__path__)
        if module.ispkg
    ),
]


def test_imports_run_one_way(capsys: pytest.CaptureFixture[str]) -> None:
    exit_code = lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True)
    assert exit_code == 0, capsys.readouterr().out


def test_contributing_shows_the_nine_layers_of_the_import_contract() -> None:
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    rows = re.findall(r"^\| \d \| (.*?) \|", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    shown = [sorted(re.findall(r"`(\w+)`", row)) for row in rows]
    assert shown == [sorted(layer.split(" : ")) for layer in contract["layers"]]
    assert len(shown) == 9


@pytest.mark.parametrize("package", PACKAGES)
def test_all_is_true(package: str) -> None:
    module = importlib.import_module(package)
    assert len(set(module.__all__)) == len(module.__all__)
    for name in module.__all__:
        assert hasattr(module, name), f"{package}.__all__ names {name}, which it does not have"
    tree = ast.parse(Path(module.__file__).read_text())
    bound = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    own = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    public = {name for name in bound | own if not name.startswith("_")} - {"checks"}
    assert public == set(module.__all__)


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_are_small_and_documented(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 400
    assert ast.get_docstring(ast.parse(text)), f"{path} does not say what it holds"


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_stand_at_the_top(path: Path) -> None:
    tree = ast.parse(path.read_text())
    nested = [
        node.lineno
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert not nested, f"{path} imports inside a function at lines {nested}"


def test_shapes_in_signatures_are_checked_while_testing() -> None:
    with pytest.raises(jaxtyping.TypeCheckError):
        actgp.sphere.lift(torch.zeros(2, 2, dtype=torch.long))
