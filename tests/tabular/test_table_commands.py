"""fit, predict and show, as they are called."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

import actgp
from actgp.cli import command_line
from actgp.tabular import TableModel

pytestmark = pytest.mark.usefixtures("quick")


def run(*arguments: object, code: int = 0, given: bytes | None = None) -> Result:
    result = CliRunner().invoke(command_line(), [str(each) for each in arguments], input=given)
    assert result.exit_code == code, result.output
    return result


def said(result: Result) -> str:
    return " ".join(result.output.replace("│", " ").split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, file: Path, quick: None) -> Path:
    """Where the table was fitted."""
    folder = tmp_path_factory.mktemp("here")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        result = run("fit", file, "-t", "price", "--drop", "quick", "--effort", "fast")
    text = said(result)
    for part in ("decimal commas", "Aachen, Bonn, Köln, missing", "regression, since it has", "wrote homes.actgp"):
        assert part in text
    return folder


def test_fit_writes_a_model_and_a_page(folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == ["homes.actgp", "homes.html"]
    model = actgp.load(folder / "homes.actgp")
    assert isinstance(model, TableModel)
    assert model.target == "price"


def test_predict_adds_columns(folder: Path, file: Path, tmp_path: Path) -> None:
    done = json.loads(run("predict", folder / "homes.actgp", file, "-o", tmp_path / "out.csv", "--json").stdout)
    assert done["rows"] == 90
    out = pd.read_csv(tmp_path / "out.csv")
    covered = (out["price"] > out["predicted_lower"]) & (out["price"] < out["predicted_upper"])
    assert covered.mean() > 0.8
    result = run("predict", folder / "homes.actgp", file, "-o", tmp_path / "fast.parquet", "--fast")
    assert "90 rows in" in said(result)
    assert len(pd.read_parquet(tmp_path / "fast.parquet")) == 90


def test_standard_input_and_output(folder: Path, file: Path, tmp_path: Path) -> None:
    result = run("predict", folder / "homes.actgp", "-", "-o", tmp_path / "out.csv", given=file.read_bytes())
    assert "90 rows" in said(result)
    refused = run("predict", folder / "homes.actgp", file, "-o", "-", "--json", code=2)
    assert "standard output can take the table or JSON, got both" in said(refused)


def test_show_writes_the_page_again(folder: Path, tmp_path: Path) -> None:
    run("show", folder / "homes.actgp", "-o", tmp_path / "again.html")
    assert (tmp_path / "again.html").read_bytes() == (folder / "homes.html").read_bytes()


def test_json_without_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random, table = np.random.default_rng(0), tmp_path / "labels.csv"
    x = random.normal(size=40)
    pd.DataFrame({"x": x, "label": np.where(x + random.normal(size=40) > 0, "up", "down")}).to_csv(table, index=False)
    output = tmp_path / "model.actgp"
    given = ("fit", "-", "-t", "label", "-o", output, "--effort", "fast", "--no-page", "--json")
    found = json.loads(run(*given, given=table.read_bytes()).stdout)
    assert found["page"] is None
    assert found["task"] == "classification"
    assert found["rows"] == {"train": 32, "test": 8}
    assert set(found["scores"]["actgp"]) == {"accuracy", "log-loss", "ECE"}
    assert "must hold the numbers of a page, got none; fit again, without --no-page" in said(
        run("show", output, code=2)
    )


def test_a_time_budget_is_kept(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 3))
    pd.DataFrame(X, columns=list("abc")).assign(y=X[:, 0].round(2)).to_csv(tmp_path / "a.csv", index=False)
    given = (
        "fit",
        tmp_path / "a.csv",
        "-t",
        "y",
        "-o",
        tmp_path / "a.actgp",
        "--no-page",
        "--time-budget",
        1,
        "--json",
    )
    assert json.loads(run(*given).stdout)["stopped"] == "time budget"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "nowhere.csv", "-t", "y"], "FILE must be a file with a table, got nothing at 'nowhere.csv'"),
        (["fit", "{file}", "-t", "prise"], "got 'prise', of 'size', 'built', 'town'"),
        (["fit", "{file}", "-t", "price", "-o", "page.html"], "--output must be a file in a folder that exists"),
        (["fit", "{file}", "-t", "remark"], "labels in 'remark' must be of 2 to 45 kinds in 90 rows, got 90"),
        (["predict", "{file}", "{file}", "-o", "out.csv"], "must be an actgp file"),
        (["show", "nowhere.actgp"], "path must name a file that exists, got 'nowhere.actgp'"),
    ],
)
def test_what_cannot_be_done_is_refused(
    arguments: list[str], message: str, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = said(run(*(each.format(file=file) for each in arguments), code=2))
    assert message.replace(" ", "") in text.replace(" ", "")
    assert "Traceback" not in text
    assert list(tmp_path.iterdir()) == []


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    actgp.deep_gp(input_dim=2, num_layers=1, num_inducing=4).save(tmp_path / "model.actgp")
    message = "MODEL must be what actgp fit has written, got a DeepGP in"
    assert message in said(run("show", tmp_path / "model.actgp", code=2))


def test_python_runs_it_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "actgp", "fit", "--help"], check=True, capture_output=True, text=True)
    for part in ("Examples", "actgp fit prices.csv --target price", "--time-budget"):
        assert part in done.stdout


def test_an_interrupt_before_there_is_a_model(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "actgp", "fit", "-", "-t", "y", "-o", str(tmp_path / "y.actgp")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "reading standard input" in process.stderr.readline()  # of which nothing comes
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert "Traceback" not in process.stderr.read()
    assert list(tmp_path.iterdir()) == []
