"""The commands that the experiments add to `actgp`, through its command line."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from actgp.cli import command_line


def run(*arguments: str) -> str:
    result = CliRunner().invoke(command_line(), list(arguments))
    assert result.exit_code == 0, result.output
    return result.output


def test_they_are_installed() -> None:
    output = run("--help")
    assert all(name in output for name in ("tables", "figures", "run", "report"))


def test_tables_are_printed_and_written(tmp_path: Path) -> None:
    output = run("tables", "--output", str(tmp_path))
    assert "0.0234" in output
    assert "…" not in output  # nothing is cut off where there are 80 columns
    assert sum(line.startswith("3 ") and line.endswith(" 0 ") for line in output.splitlines()) == 6
    assert sorted(path.name for path in tmp_path.glob("*.csv")) == [
        "eigenvalues_arc_cosine.csv",
        "eigenvalues_relu.csv",
    ]


def test_one_figure_by_name(tmp_path: Path) -> None:
    output = run("figures", "spectra", "--output", str(tmp_path / "new" / "folder"))
    assert "spectra.png" in output
    assert sorted(path.name for path in (tmp_path / "new" / "folder").iterdir()) == ["spectra.csv", "spectra.png"]


def test_unknown_names_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    for arguments, text in (
        (["figures", "specta", "--output", str(tmp_path)], "expected names among"),
        (["run", "uci", "--jobs", "0"], "expected a number of cells at a time, got 0"),
    ):
        result = CliRunner().invoke(command_line(), arguments)
        assert result.exit_code == 2
        assert text in " ".join(result.output.replace("│", " ").split())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["tables", "figures"])
def test_a_folder_that_cannot_be_made_is_refused(command: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = CliRunner().invoke(command_line(), [command, "--output", str(tmp_path / "file")])
    assert result.exit_code == 2
    assert "File exists" in result.output


@pytest.mark.parametrize("experiment", [["uci", "--data", "yacht"], ["images", "--dataset", "mnist"]])
def test_a_folder_of_data_that_is_not_there_is_said_plainly(
    experiment: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACTGP_DATA", str(tmp_path / "none"))
    results = str(tmp_path / "results.jsonl")
    result = CliRunner().invoke(
        command_line(), ["run", *experiment, "--model", "NN", "--jobs", "1", "--results", results]
    )
    assert result.exit_code == 2
    assert "ACTGP_DATA must be a folder that exists" in " ".join(result.output.replace("│", " ").split())


def test_the_report_is_written_from_stored_results(tmp_path: Path) -> None:
    cells = [
        {
            "experiment": "uci",
            "data": data,
            "split": split,
            "model": model,
            "seed": split,
            "metrics": {
                "rmse": 0.1 * k,
                "nlpd": k + 0.1 * split,
                "crps": 0.05 * k,
                **{f"coverage_{level}": level / 100 for level in (50, 90, 95)},
                **{f"{name}_original": 2.0 * k for name in ("rmse", "nlpd", "crps")},
            },
            "pit": [5] * 20,
            "seconds": {"train": 1.0 * k, "predict": 0.1},
            "rows": {"train": 900, "test": 100},
            "inputs": 8,
            "configuration": {},
            "versions": {},
        }
        for data in ("energy", "yacht")
        for split in range(2)
        for k, model in enumerate(("ADGP, ours", "NN"), start=1)
    ]
    results = tmp_path / "uci.jsonl"
    results.write_text("".join(json.dumps(cell) + "\n" for cell in cells))
    page, text = tmp_path / "report.html", tmp_path / "report.md"
    output = run("report", str(results), "--html", str(page), "--markdown", str(text))
    assert "report.html" in output
    assert page.read_text(encoding="utf-8").count("ADGP, ours") > 2
    assert "ADGP, ours" in text.read_text(encoding="utf-8")
    missing = CliRunner().invoke(command_line(), ["report", str(tmp_path / "none.jsonl")])
    assert missing.exit_code == 2
