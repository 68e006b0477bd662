"""Everything that README, CONTRIBUTING and docs show is run."""

import re
import shlex
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from actgp.cli import command_line

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(document: Path, language: str) -> list[str]:
    return [body for name, body in FENCE.findall(document.read_text()) if name == language]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: p.name)
def test_python_runs(document: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = blocks(document, "python")
    assert code, f"{document.name} shows no code"
    namespace: dict[str, object] = {}
    for block in code:
        exec(compile(block, document.name, "exec"), namespace)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: p.name)
def test_commands_exist_and_run(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("prices.csv", "new.csv"):
        size = np.linspace(30, 90, 20)
        pd.DataFrame({"size": size, "price": 3 * size + np.sin(size)}).to_csv(name, index=False)
    for line in "".join(blocks(document, "console")).splitlines():
        command, *arguments = shlex.split(line)
        if command == "make":
            subprocess.run(["make", "--dry-run", *arguments], cwd=ROOT, check=True, capture_output=True)
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
    assert {name for d in DOCUMENTS for name, _ in FENCE.findall(d.read_text())} <= {"python", "console"}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: p.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
        assert target.startswith("https://") or (document.parent / target).exists(), (
            f"{document.name} links to {target}"
        )


def test_the_readme_names_the_two_commands() -> None:
    commands = "".join(blocks(ROOT / "README.md", "console"))
    assert "make demo\nmake test\n" in commands
