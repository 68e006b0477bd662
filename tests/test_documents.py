"""Everything that README, CONTRIBUTING and docs show is run."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from actgp.cli import command_line

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
DOCUMENTS = [path for path in DOCUMENTS if "node_modules" not in path.parts]  # docs/browser may hold some
DOCUMENTS.remove(ROOT / "docs" / "uci" / "report.md")  # written by `actgp report`
WITHOUT_CODE = {"gallery.md", *(path.name for path in (ROOT / "docs" / "api").iterdir())}
ALONE = [d for d in DOCUMENTS if d.name != "ecosystem.md"]  # that one needs many packages: tests/ecosystem runs it
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LANGUAGES = {"python", "console", "text", "js"}  # text is what the Python above it prints
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def blocks(document: Path, language: str) -> list[str]:
    return [body for name, body in FENCE.findall(document.read_text()) if name == language]


def name(document: Path) -> str:
    return str(document.relative_to(ROOT))


def check_output(shown: str, printed: str) -> None:
    """The words are the same, and the numbers are alike: they are not those of another machine to the last digit."""
    assert NUMBER.sub("0", shown).split() == NUMBER.sub("0", printed).split(), f"shown:\n{shown}\nprinted:\n{printed}"
    numbers = [[float(number) for number in NUMBER.findall(text)] for text in (shown, printed)]
    assert numbers[0] == pytest.approx(numbers[1], rel=0.25, abs=0.05), f"shown:\n{shown}\nprinted:\n{printed}"


@pytest.mark.parametrize("document", ALONE, ids=name)
def test_python_runs_and_prints_what_is_shown(document: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fences = [
        (language, body) for language, body in FENCE.findall(document.read_text()) if language in ("python", "text")
    ]
    assert fences or document.name in WITHOUT_CODE, f"{document.name} shows no code"
    namespace: dict[str, object] = {}
    printed = ""
    for language, body in fences:
        if language == "python":
            exec(compile(body, document.name, "exec"), namespace)
            printed = capsys.readouterr().out
        else:
            check_output(body, printed)
    assert capsys.readouterr().err == ""


def test_shown_output_that_differs_is_found() -> None:
    check_output("90% inside, width 71.2\n", "89%  inside, width 70.9\n")
    with pytest.raises(AssertionError, match="shown"):
        check_output("90% inside", "90% outside")
    with pytest.raises(AssertionError, match="shown"):
        check_output("90% inside", "60% inside")


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_commands_exist_and_run(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for table in ("prices.csv", "new.csv"):
        size = np.linspace(30, 90, 20)
        pd.DataFrame({"size": size, "price": 3 * size + np.sin(size)}).to_csv(table, index=False)
    for line in "".join(blocks(document, "console")).splitlines():
        command, *arguments = shlex.split(line)
        if command == "make":
            subprocess.run(["make", "--dry-run", *arguments], cwd=ROOT, check=True, capture_output=True)
        elif command in ("torchrun", "dask"):  # their own tests start processes
            assert (Path(sys.executable).parent / command).exists()
        else:
            assert command == "actgp", f"{document.name} shows {line}, which no test runs"
            if arguments[0] in ("run", "report"):  # hours, and results; their own tests run them small
                arguments = [*[word for word in arguments if word != "--quick"], "--help"]
                assert CliRunner().invoke(command_line(), arguments).exit_code == 0
                continue
            arguments += ["--effort", "fast"] if arguments[0] == "fit" else []
            output = ["--output", str(tmp_path)] if arguments[0] not in ("diagnose", "fit", "predict", "show") else []
            result = CliRunner().invoke(command_line(), [*arguments, *output])
            assert result.exit_code == 0, result.output


def test_only_known_languages_are_shown() -> None:
    # JavaScript is run by tests/distil/test_javascript.py.
    assert {name for d in DOCUMENTS for name, _ in FENCE.findall(d.read_text())} <= LANGUAGES


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
        assert target.startswith("https://") or (document.parent / target).exists(), (
            f"{document.name} links to {target}"
        )


def test_the_readme_names_the_two_commands() -> None:
    commands = "".join(blocks(ROOT / "README.md", "console"))
    assert "make demo\nmake test\n" in commands
