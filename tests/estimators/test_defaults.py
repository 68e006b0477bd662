"""What is not given is as `deep_gp` and `fit` have it."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from small_estimators import QUICK, Data, classifier, regressor

import actgp
from actgp.estimators.base import LARGEST_SEED, PARTS


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> actgp.Recipe:
    """The default recipe, for a moment."""
    recipe = actgp.Recipe(network_steps=2, num_steps=1, validation=0.0)
    monkeypatch.setattr(actgp.Recipe, "suited_to", lambda _: recipe)
    return recipe


@pytest.mark.parametrize("num_columns", [2, 20])
def test_both_doors_give_the_same_model_of_the_same_table(num_columns: int, brief: actgp.Recipe) -> None:
    random = np.random.default_rng(0)
    X, y = random.normal(size=(130, num_columns)), random.normal(size=130)
    estimator = actgp.DGPRegressor(num_layers=3, random_state=0).fit(X, y)

    seed = np.random.RandomState(0).randint(LARGEST_SEED)
    g = torch.Generator().manual_seed(int(seed))
    model = actgp.deep_gp(num_columns, generator=g).double()
    inputs = torch.from_numpy(estimator.input_scaler_.transform(X))
    targets = torch.from_numpy(estimator.target_scaler_.transform(y[:, None]))
    actgp.fit(model, inputs, targets, generator=g, progress=False)

    assert estimator.recipe_ == brief
    ours, theirs = estimator.model_.state_dict(), model.state_dict()
    assert ours.keys() == theirs.keys()
    for name, values in theirs.items():
        assert torch.equal(ours[name], values), name


def test_the_default_is_what_fit_table_gives() -> None:
    random = np.random.default_rng(0)
    X, y = random.normal(size=(60, 2)), random.normal(size=60)
    estimator = actgp.DGPRegressor(effort="fast", random_state=0).fit(X, y)
    g = torch.Generator().manual_seed(int(np.random.RandomState(0).randint(LARGEST_SEED)))
    inputs = torch.from_numpy(estimator.input_scaler_.transform(X))
    targets = torch.from_numpy(estimator.target_scaler_.transform(y[:, None]))
    model, report = actgp.fit_table(inputs, targets, effort="fast", generator=g)
    assert estimator.recipe_ is None
    assert estimator.report_ == report
    ours, theirs = estimator.model_.state_dict(), model.state_dict()
    assert ours.keys() == theirs.keys()
    for name, values in theirs.items():
        assert torch.equal(ours[name], values), name


@pytest.mark.parametrize(
    "parameter", [{"num_layers": 1}, {"num_inducing": 8}, {"layers": actgp.Layers()}, {"recipe": QUICK}], ids=str
)
def test_what_describes_a_deep_gp_makes_one(parameter: dict[str, Any], brief: actgp.Recipe, table: Data) -> None:
    X, y = table
    assert isinstance(actgp.DGPRegressor(**parameter).fit(X[:40], y[:40]).model_, actgp.DeepGP)


def test_an_effort_that_there_is_not_is_refused(table: Data) -> None:
    with pytest.raises(ValueError, match=r"effort must be one of \['fast', 'balanced', 'best'\], got 'much'"):
        actgp.DGPRegressor(effort="much").fit(*table)


def test_less_effort_takes_fewer_steps(monkeypatch: pytest.MonkeyPatch, table: Data) -> None:
    given: list[actgp.Recipe] = []
    monkeypatch.setattr("actgp.estimators.base.fit", lambda model, X, y, recipe, **options: given.append(recipe))
    for effort in ("fast", "best"):
        actgp.DGPRegressor(2, effort=effort).fit(*table)
    assert given[0].network_steps * 10 == given[1].network_steps == actgp.Recipe().network_steps


def test_the_default_recipe_is_that_of_fit(monkeypatch: pytest.MonkeyPatch, table: Data) -> None:
    given: list[actgp.Recipe] = []
    monkeypatch.setattr("actgp.estimators.base.fit", lambda model, X, y, recipe, **options: given.append(recipe))
    for num_layers, expected in ((1, "elbo"), (2, "predictive")):
        model = regressor(recipe=None, num_layers=num_layers).fit(*table).model_
        assert given[-1] == actgp.Recipe.suited_to(model)
        assert given[-1].objective == expected


def test_there_are_no_more_inducing_variables_than_rows(table: Data) -> None:
    X, y = table
    fitted = regressor(num_inducing=128).fit(X[:40], y[:40])
    assert all(layer.features.num_inducing == 40 for layer in fitted.model_.gp_layers)
    assert fitted.score(X[40:], y[40:]) > 0.8
    density = fitted.log_density(X[40:], y[40:])
    assert density.mean() > -np.log(np.std(y) * np.sqrt(2 * np.pi)) - 0.5  # better than the spread of y alone


def test_the_parameters_are_the_same_for_both_estimators() -> None:
    parameters = actgp.DGPClassifier().get_params()
    assert parameters == actgp.DGPRegressor().get_params()
    assert parameters["layers"] is None
    assert parameters["recipe"] is None
    with pytest.raises(TypeError, match="positional"):
        actgp.DGPRegressor(2, 128, actgp.Layers())


def test_a_classifier_has_a_horizon_whatever_its_layers_are(table: Data) -> None:
    X, y = table
    for layers in (None, actgp.Layers(num_points=0), actgp.Layers(horizon=20.0)):
        fitted = classifier(layers=layers).fit(X, y > 500)
        first, last = fitted.model_.gp_layers
        assert first.horizon is None
        found = last.horizon
        if layers is None or layers.horizon is None:
            rows = torch.from_numpy(fitted.input_scaler_.transform(X))
            assert found == actgp.forget_beyond(fitted.model_, rows)
        else:
            assert found == 20.0
        assert fitted.layers == layers


def test_layers_are_what_is_built(table: Data) -> None:
    fitted = regressor(layers=actgp.Layers(kernel="matched", num_points=0, hidden_dim=3)).fit(*table)
    first, *_ = fitted.model_.gp_layers
    assert isinstance(first.kernel, actgp.MatchedKernel)
    assert isinstance(first.features, actgp.ActivatedFeatures)
    assert first.num_outputs == 3


@pytest.mark.parametrize(
    ("parameter", "part"),
    [
        ({"recipe__num_steps": 7}, actgp.Recipe(num_steps=7)),
        ({"recipe": QUICK, "recipe__num_steps": 7, "recipe__validation": 0.2}, None),
        ({"layers__activation": "gelu", "layers__num_points": 0}, actgp.Layers(activation="gelu", num_points=0)),
    ],
    ids=str,
)
def test_fields_of_parts_can_be_set(parameter: dict[str, Any], part: object) -> None:
    estimator = regressor(recipe=None)
    assert estimator.set_params(**parameter) is estimator
    name = next(iter(parameter)).partition("__")[0]
    if part is not None:
        assert getattr(estimator, name) == part
    for key, value in parameter.items():
        if "__" in key:
            assert getattr(getattr(estimator, name), key.partition("__")[2]) == value
    assert getattr(clone(estimator), name) == getattr(estimator, name)
    assert QUICK.num_steps == 3


def test_fields_of_parts_can_be_searched(table: Data) -> None:
    grid = {"recipe__network_steps": [1, 30], "layers__kernel": ["matched"]}
    search = GridSearchCV(regressor(num_layers=1), grid, cv=2).fit(*table)
    assert search.best_params_["recipe__network_steps"] == 30


@pytest.mark.parametrize("name", ["recipe__steps", "layers__num_steps", "random_state__seed", "nothing__at_all"])
def test_fields_that_there_are_not_are_refused(name: str) -> None:
    estimator = regressor()
    with pytest.raises(ValueError, match=f"a field of a parameter must be one of .*recipe__num_steps.*, got '{name}'"):
        estimator.set_params(**{name: 1})
    with pytest.raises(ValueError, match="Invalid parameter 'activation'"):
        estimator.set_params(activation="relu")
    assert all(estimator.get_params()[part] in (None, QUICK) for part in PARTS)
    assert {field.name for cls in PARTS.values() for field in fields(cls)} >= {"num_steps", "activation"}


@pytest.mark.parametrize("labels", [["no", "yes"], ["a", "b", "c"]])
def test_a_classifier_is_a_mixture_by_default(labels: list[str], tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(90, 2))
    y = np.array(labels)[(np.digitize(X[:, 0], [-0.4, 0.4]) if len(labels) == 3 else X[:, 0] > 0).astype(int)]
    classifier = actgp.DGPClassifier(effort="fast", time_budget=60.0, random_state=0).fit(X, y)
    assert isinstance(classifier.model_, actgp.Mixture)
    assert classifier.recipe_ is None
    assert classifier.score(X, y) > 0.95
    assert np.allclose(np.exp(classifier.predict_log_proba(X)), classifier.predict_proba(X))
    classifier.save(tmp_path / "classifier.actgp")
    loaded = actgp.load(tmp_path / "classifier.actgp")
    assert np.array_equal(loaded.predict_proba(X), classifier.predict_proba(X))
    assert loaded.time_budget == 60.0


def test_a_time_budget_is_for_the_default() -> None:
    with pytest.raises(ValueError, match="a time budget is for the default, got time_budget=5"):
        actgp.DGPRegressor(num_layers=2, time_budget=5).fit(np.eye(4), np.arange(4.0))
