"""The demo says what it claims: activated GPs beat their networks in what they know of what they do not know."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from actgp.cli import app
from actgp.experiments.demo import classification, regression


@pytest.fixture(scope="module")
def regression_scores() -> dict[tuple[str, str], regression.Score]:
    return {(score.data, score.model): score for score in regression.scores()}


def test_activated_gps_are_calibrated_where_networks_are_not(
    regression_scores: dict[tuple[str, str], regression.Score],
) -> None:
    for data in regression.data_sets():
        network = regression_scores[data, "network"]
        gp = regression_scores[data, "sparse GP, activated units"]
        exact = regression_scores[data, "exact GP"]
        assert gp.nlpd < network.nlpd
        assert gp.rmse < 1.05 * network.rmse
        assert 0.9 <= gp.coverage <= 1.0
        assert gp.nlpd == pytest.approx(exact.nlpd, abs=0.1)


def test_demo_prints_tables_and_writes_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classification, "NUM_STEPS", 60)
    monkeypatch.setattr(regression, "scores", lambda: iter([regression.Score("waves", "exact GP", 0.25, 0.04, 0.96)]))
    result = CliRunner().invoke(app, ["demo", "--output", str(tmp_path)])
    assert result.exit_code == 0, result.output
    for text in ("waves", "0.250", "96%", "breast cancer", "log-likelihood"):
        assert text in result.output
    names = ["probabilities.csv", "probabilities.png", "two_readings.csv", "two_readings.png"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
