"""The default for tables, whole."""

import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from torch import Tensor

import actgp
from actgp.tables import PLANS
from actgp.tables.clock import Clock
from actgp.tables.table import Run
from actgp.tables.targets import Targets


def smooth(X: Tensor) -> Tensor:
    return torch.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3]


def standardised(N: int, noise: float = 0.0) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(0)
    X = torch.rand(N, 4, dtype=torch.float64, generator=g) * 3.4 - 1.7
    y = smooth(X) + noise * torch.randn(N, dtype=torch.float64, generator=g)
    return X, ((y - y.mean()) / y.std()).unsqueeze(1)


def test_epistemic_variance_shrinks_at_the_data() -> None:
    """At rows of a function without noise at most twice what an exact GP says, and three times as much elsewhere."""
    X, y = standardised(450)
    model, _ = actgp.fit_table(X[:150], y[:150], generator=torch.Generator().manual_seed(0))
    exact = actgp.GPR(X[:150], y[:150], actgp.ArcCosine(4))
    actgp.fit(exact, progress=False)
    at_rows, elsewhere = (model.predict(rows).epistemic.sqrt().mean().item() for rows in (X[:150], X[150:]))
    assert at_rows <= 2 * exact.predict(X[:150]).epistemic.sqrt().mean().item()
    assert elsewhere >= 3 * at_rows


def test_twenty_points_of_a_smooth_function_are_followed() -> None:
    x = torch.linspace(-2, 2, 20, dtype=torch.float64).unsqueeze(1)
    y = torch.sin(2 * x) * 1.4
    model, report = actgp.fit_table(x, y, generator=torch.Generator().manual_seed(0))
    between = torch.linspace(-1.9, 1.9, 50, dtype=torch.float64).unsqueeze(1)
    assert (model.predict(between).mean - 1.4 * torch.sin(2 * between[:, 0])).abs().max() < 0.1
    assert set(report.weights) == {"arc-cosine GP", "Matérn GP"}  # too few rows for networks


def test_a_small_table_is_predicted_no_worse_than_by_an_exact_gp() -> None:
    X, y = standardised(500, noise=0.2)
    model, report = actgp.fit_table(X[:120], y[:120], effort="fast", generator=torch.Generator().manual_seed(0))
    exact = actgp.GPR(X[:120], y[:120], actgp.ArcCosine(4))
    actgp.fit(exact, progress=False)
    ours, theirs = (m.predict(X[120:]).log_prob(y[120:, 0]).mean().item() for m in (model, exact))
    assert ours > theirs - 0.02
    assert report.scores["mixture"] >= max(report.scores.values()) - 0.05
    assert sum(report.weights.values()) == pytest.approx(1.0)
    assert len(model.members) == sum(weight > 0 for weight in report.weights.values())
    assert report.num_judged == 120


def test_a_large_table_has_a_deep_member(monkeypatch: pytest.MonkeyPatch) -> None:
    brief = PLANS["fast"]._replace(network_steps=40, deep_steps=20, networks=(2, 2))
    monkeypatch.setitem(PLANS, "balanced", brief)
    monkeypatch.setattr("actgp.tables.table.FEWEST_FOR_DEEP", 300)
    monkeypatch.setattr("actgp.tables.table.HOPELESS", float("inf"))
    monkeypatch.setattr("actgp.tables.members.EXACT", 50)
    monkeypatch.setattr("actgp.tables.members.MOST_POINTS", 30)
    monkeypatch.setattr("actgp.tables.stacking.SMALLEST", 0.0)
    X, y = standardised(600, noise=0.2)
    targets = torch.cat([y, -y], dim=1)  # two of them
    model, report = actgp.fit_table(X[:400], targets[:400], generator=torch.Generator().manual_seed(0))
    assert report.weights["deep GP around networks"] > 0
    assert model.networks is not None
    assert list(report.weights) == ["arc-cosine GP", "Matérn GP", "deep GP around networks"]
    assert report.num_judged == 80  # rows that are held out of the deep GP
    prediction = model.predict(X[400:])
    assert prediction.mean.shape == (200, 2)
    assert (prediction.mean - targets[400:]).square().mean() < 0.5


def test_nothing_is_put_around_networks_that_are_far_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actgp.tables.table.HOPELESS", 0.0)
    X, y = standardised(60, noise=0.2)
    model, report = actgp.fit_table(X, y, effort="fast", generator=torch.Generator().manual_seed(0))
    assert set(report.weights) == {"arc-cosine GP", "Matérn GP"}
    assert model.networks is None


def test_of_very_large_tables_gps_of_one_layer_take_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    brief = PLANS["fast"]._replace(network_steps=40, deep_steps=20, networks=(2, 2), whole=True)
    monkeypatch.setitem(PLANS, "best", brief)
    monkeypatch.setattr("actgp.tables.members.Recipe", lambda: actgp.Recipe(network_steps=5, num_steps=3))
    for name, value in (("HOPELESS", float("inf")), ("FEWEST_FOR_DEEP", 200), ("FEW_ROWS", 80), ("MOST_ROWS", 100)):
        monkeypatch.setattr(f"actgp.tables.table.{name}", value)
    monkeypatch.setattr("actgp.tables.stacking.SMALLEST", 0.0)
    X, y = standardised(300, noise=0.2)
    model, report = actgp.fit_table(X, y, effort="best", generator=torch.Generator().manual_seed(0))
    assert len(report.weights) == 4
    assert report.num_judged == 60  # the same rows for all members
    assert [member.gp_layers[0].features.num_inducing for member in model.members[:2]] == [80, 80]


def test_a_gp_of_one_layer_is_fitted_to_all_rows_only_if_it_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actgp.tables.table.FEW_ROWS", 80)
    monkeypatch.setattr("actgp.tables.table.FEWEST_FOR_NETWORKS", 1_000)
    X, y = standardised(120, noise=0.2)
    run = Run(X, Targets(y), PLANS["fast"], Clock(None), torch.Generator().manual_seed(0), False)
    better = torch.tensor([1.0, 0.0], dtype=torch.float64)
    monkeypatch.setattr("actgp.tables.table.stacking_weights", lambda _: better)
    run.fit()
    known = [int((~member.densities.isnan()).sum()) for member in run.members]
    assert known == [120, 80]
    assert len(run.judged()) == 80


def test_the_best_effort_trains_a_deep_gp_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PLANS, "best", PLANS["fast"]._replace(network_steps=20, whole=True))
    monkeypatch.setattr("actgp.tables.members.Recipe", lambda: actgp.Recipe(network_steps=5, num_steps=3))
    X, y = standardised(60, noise=0.2)
    _, report = actgp.fit_table(X, y, effort="best", generator=torch.Generator().manual_seed(0))
    assert "deep GP" in report.weights


def test_the_same_seed_gives_the_same_model() -> None:
    X, y = standardised(50, noise=0.2)
    one, other = (
        actgp.fit_table(X, y, effort="fast", generator=torch.Generator().manual_seed(1))[0].predict(X).mean
        for _ in range(2)
    )
    assert torch.equal(one, other)


def test_what_is_no_standardised_table_is_refused() -> None:
    X, y = standardised(40)
    for given, message in (
        ((1000 * X, y), "columns of X must be standardised, got one with mean .* and standard deviation"),
        ((X, y + 50), "columns of y must be standardised, got one with mean 50"),
        ((X[:20], y), "X and y must have the same two or more rows, got 20 and 40"),
        ((X.unsqueeze(0), y), r"X must be a matrix, one row for each case, got shape \[1, 40, 4\]"),
        ((X.log(), y), "X must be finite, got"),
    ):
        with pytest.raises(ValueError, match=message):
            actgp.fit_table(*given)
    with pytest.raises(TypeError, match="X must be a torch.Tensor"):
        actgp.fit_table(X.numpy(), y)  # type: ignore[arg-type]


def test_single_precision_and_a_vector_of_targets_will_do() -> None:
    X, y = standardised(40, noise=0.1)
    constant = torch.cat([X, torch.zeros(40, 1)], dim=1)
    model, _ = actgp.fit_table(constant.float(), y[:, 0].float(), effort="fast")
    assert model.predict(constant).mean.shape == (40,)


@pytest.mark.parametrize("num_classes", [2, 3])
def test_labels_are_predicted_as_well_as_by_logistic_regression(num_classes: int) -> None:
    g = torch.Generator().manual_seed(0)
    X = torch.randn(700, 3, dtype=torch.float64, generator=g)
    logits = torch.stack([X[:, 0] * X[:, 1], 1.5 * X[:, 2].sin(), -X[:, 0]], dim=1)[:, :num_classes] * 2
    labels = torch.multinomial(logits.softmax(1), 1, generator=g)[:, 0]
    model, report = actgp.fit_table(X[:200], labels[:200], effort="fast", generator=g)
    simple = LogisticRegression().fit(X[:200], labels[:200])
    theirs = -log_loss(labels[200:], simple.predict_proba(X[200:]))
    prediction = model.predict(X[200:])
    ours = prediction.log_prob(labels[200:]).mean().item()
    assert ours > theirs + 0.05
    assert ours > logits[200:].log_softmax(1)[torch.arange(500), labels[200:]].mean().item() - 0.2
    assert report.scores["mixture"] >= max(report.scores.values()) - 0.02
    assert prediction.probabilities.shape == (500, num_classes)
    assert torch.allclose(prediction.probabilities.sum(1), torch.ones(500).double())


def test_labels_must_be_two_or_more() -> None:
    X = torch.randn(30, 2, dtype=torch.float64)
    for labels in (torch.zeros(30, dtype=torch.long), torch.arange(30) - 1, torch.ones(30, 2, dtype=torch.long)):
        with pytest.raises(ValueError, match="labels must be integers 0 … C − 1, one for each row, of two or more"):
            actgp.fit_table(X, labels)


def test_a_time_budget_is_kept() -> None:
    X, y = standardised(400, noise=0.2)
    actgp.fit_table(X[:30], y[:30], time_budget=0.01)  # what is loaded once
    least = actgp.fit_table(X, y, time_budget=0.01)[1].seconds  # of what is fitted in any case
    for budget in (1.0, 3.0):
        _, report = actgp.fit_table(X, y, effort="best", time_budget=budget, generator=torch.Generator().manual_seed(0))
        assert report.stopped == "time budget"
        assert report.seconds < 1.5 * max(budget, least) + 1.0
    with pytest.raises(ValueError, match="time_budget must be positive"):
        actgp.fit_table(X, y, time_budget=-1.0)


def test_an_interrupt_keeps_what_was_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    X, y = standardised(60, noise=0.2)
    monkeypatch.setattr("actgp.tables.table.cross_fit", interrupted)
    with pytest.warns(UserWarning, match="interrupted; the model is mixed of what had been fitted"):
        model, report = actgp.fit_table(X, y)
    assert report.stopped == "interrupt"
    assert model.predict(X).mean.shape == (60,)
    monkeypatch.setattr("actgp.tables.table.gp_member", interrupted)
    with pytest.raises(KeyboardInterrupt):
        actgp.fit_table(X, y)
