"""The demo says what it claims: deep GPs beat their networks in what they know of what they do not know."""

import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from actgp import Recipe
from actgp.cli import command_line
from actgp.demo import classification, pictures, regression, table
from actgp.demo.data import bananas, tables

QUICK = Recipe(network_steps=20, num_steps=2, num_samples=1)


def test_bananas_overlap_and_lie_around_the_origin() -> None:
    X, y = bananas(1_000, 0)
    assert 0.4 < y.double().mean() < 0.6
    assert X.mean(0).abs().max() < 0.2
    assert X.abs().max() < pictures.SIDE / 2
    again, _ = bananas(1_000, 0)
    assert (again == X).all()


def test_a_deep_gp_knows_more_of_its_error_than_its_network(monkeypatch: pytest.MonkeyPatch) -> None:
    friedman = {"friedman": tables()["friedman"]}
    monkeypatch.setattr(regression, "tables", lambda: friedman)
    network, deep = regression.scores()
    assert deep.nlpd < network.nlpd - 0.2
    assert deep.rmse < 1.05 * network.rmse
    assert abs(deep.coverage - 0.95) < abs(network.coverage - 0.95)


def test_the_demo_prints_tables_and_writes_pictures_and_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (classification, regression):
        monkeypatch.setattr(module, "RECIPE", QUICK)
        monkeypatch.setattr(module, "NUM_INDUCING", 10)
    monkeypatch.setattr(pictures, "RESOLUTION", 9)
    whole = table.load_diabetes
    monkeypatch.setattr(table, "load_diabetes", lambda **options: tuple(each.head(60) for each in whole(**options)))
    folder = tmp_path / "new" / "folder"
    result = CliRunner().invoke(command_line(), ["demo", "--output", str(folder)])
    assert result.exit_code == 0, result.output
    for text in ("friedman", "diabetes", "network", "deep GP", "NLPD", "95 % coverage", "log-likelihood"):
        assert text in result.output
    names = ["diabetes.actgp", "diabetes.csv", "diabetes.html", "index.html"]
    names += ["probabilities.csv", "probabilities.png", "two_readings.csv", "two_readings.png"]
    assert sorted(path.name for path in folder.iterdir()) == names
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") == 2
    assert not re.search(r'(src|href)="(?!data:)', page)  # nothing outside the page
    for number in re.findall(r"\d\.\d{3}", result.output):
        assert number in page
    assert str(folder / "diabetes.html") in result.output.replace("\n", "").split("look at ")[1]
    assert "progression" in (folder / "diabetes.html").read_text(encoding="utf-8")
    surfaces = np.loadtxt(folder / "probabilities.csv", delimiter=",", skiprows=1)
    assert surfaces.shape == (81, 6)
    assert ((surfaces[:, 2:] >= 0) & (surfaces[:, 2:] <= 1)).all()
