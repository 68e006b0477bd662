"""Where `forget_beyond` puts the horizon."""

import pytest
import torch

from actgp.demo.data import Data, bananas
from actgp.training import Recipe
from actgp_experiments import horizon


def test_each_fold_is_scored_at_each_factor(monkeypatch: pytest.MonkeyPatch) -> None:
    (X, y), other = bananas(60, 0), bananas(10, 1)
    monkeypatch.setattr(horizon, "data", lambda: (Data(X, y), other))
    monkeypatch.setattr(horizon, "DEPTHS", (1,))
    records = list(horizon.horizon_choices(Recipe(network_steps=20, num_steps=5, objective="elbo"), 8))
    assert [record["fold"] for record in records] == list(range(horizon.FOLDS))
    for record in records:
        scores = record["log_likelihood"]
        assert list(scores) == ["None", *map(str, horizon.FACTORS)]
        assert scores["3.0"] == pytest.approx(scores["None"], abs=1e-3)  # (1 / 3)^16 of the prior at the edge
        assert scores["1.0"] != scores["None"]
        assert torch.tensor(list(scores.values())).isfinite().all()


def test_the_rule() -> None:
    scores = {"None": -0.2} | {str(factor): -0.2 - 0.01 * (3 - factor) for factor in horizon.FACTORS}
    assert horizon.chosen_factor([{"log_likelihood": scores}]) == 3.0
    scores |= {"2.2": -0.2019, "2.5": -0.201}
    assert horizon.chosen_factor([{"log_likelihood": scores}]) == 2.2
