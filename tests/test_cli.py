"""The command line, and what other distributions add to it."""

import re
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from typer.testing import CliRunner

from actgp.cli import command_line
from actgp.cli import plug_ins as commands

PLUG_IN = """
import typer

app = typer.Typer()
number = 3

@app.command()
def first() -> None:
    print("the first")

@app.command()
def second() -> None:
    print("the second")

def single(word: str) -> None:
    "Says a word."
    print("single", word)
"""


def run(*arguments: str) -> str:
    result = CliRunner().invoke(command_line(), list(arguments))
    assert result.exit_code == 0, result.output
    return result.output


def refused(*arguments: str) -> str:
    result = CliRunner().invoke(command_line(), list(arguments))
    assert result.exit_code == 2
    return " ".join(result.output.replace("│", " ").split())


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--kernel", "linear"], "expected one of arccosine"),
        (["--activation", "rellu"], "activation must be one of"),
        (["--input-dim", "0"], "Invalid value for"),
        (["--activation", "tanh", "--num-levels", "1"], "activation and kernel must share a level"),
    ],
)
def test_what_cannot_be_diagnosed_is_refused(arguments: list[str], text: str) -> None:
    assert text in refused("diagnose", *arguments)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "File exists" in refused("demo", "--output", str(tmp_path / "file"))


@pytest.mark.parametrize("kernel", ["arccosine", "matched", "matern", "rbf"])
def test_diagnosis_says_what_is_lost(kernel: str) -> None:
    output = run("diagnose", "--activation", "tanh", "--kernel", kernel, "--input-dim", "3", "--num-inducing", "20")
    assert "prior variance unexplained" in output
    assert ("levels that the kernel does not have" in " ".join(output.split())) == (kernel == "arccosine")


def test_the_command_is_installed() -> None:
    command = Path(sys.executable).with_name("actgp")
    help_text = subprocess.run([command, "--help"], check=True, capture_output=True, text=True).stdout
    for name in ("demo", "diagnose"):
        assert name in help_text


# commands of other distributions


@pytest.fixture
def plug_ins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of good and bad commands in place of all that are installed."""
    (tmp_path / "plug_in.py").write_text(PLUG_IN)
    (tmp_path / "damaged_plug_in.py").write_text("import a_module_that_is_nowhere\n")
    monkeypatch.syspath_prepend(tmp_path)
    values = {
        "single": "plug_in:single",
        "group": "plug_in:app",
        "damaged": "damaged_plug_in:app",
        "absent": "plug_in:nothing",
        "number": "plug_in:number",
    }
    entries = [EntryPoint(name, value, commands.PLUG_INS) for name, value in values.items()]
    monkeypatch.setattr(commands, "entry_points", lambda group: [entry for entry in entries if entry.group == group])


@pytest.mark.usefixtures("plug_ins")
def test_functions_and_apps_become_commands() -> None:
    assert run("single", "word") == "single word\n"
    assert run("group", "second") == "the second\n"
    assert "Says a word." in run("--help")


@pytest.mark.usefixtures("plug_ins")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("damaged", "damaged_plug_in:app, got ModuleNotFoundError: No module named 'a_module_that_is_nowhere'"),
        ("absent", "plug_in:nothing, got AttributeError"),
        ("number", "plug_in:number, got TypeError: expected a function or a typer.Typer, got int"),
    ],
)
def test_a_command_that_cannot_be_loaded_says_why_and_leaves_others_alone(name: str, text: str) -> None:
    assert text in refused(name, "with", "--some", "arguments")
    assert re.search(rf"{name} +\(Cannot be loaded", run("--help"))
    assert "prior variance unexplained" in run("diagnose", "--input-dim", "3", "--num-inducing", "20")


def test_without_other_distributions_their_commands_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "entry_points", lambda group: [])
    assert "No such command 'report'" in refused("report")
