"""Files of estimators: the same predictions to the last bit, or a clear error."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from small_estimators import Data, classifier, regressor

import actgp
from actgp.persistence import archive

Edit = Callable[[dict[str, Any], dict[str, torch.Tensor]], object]
Estimator = actgp.DGPRegressor | actgp.DGPClassifier


def turned(estimator: Estimator, path: Path) -> Any:
    estimator.save(path)
    return actgp.load(path)


def assert_same_state(one: Estimator, other: Estimator) -> None:
    assert type(one) is type(other)
    assert vars(one).keys() - {"report_"} == vars(other).keys() - {"report_"}  # of training, which no file holds
    assert str(one.get_params()) == str(other.get_params())
    for name in ("classes_", "feature_names_in_"):
        if name in vars(one):
            ours, theirs = getattr(one, name), getattr(other, name)
            np.testing.assert_array_equal(ours, theirs)
            assert ours.dtype == theirs.dtype
    assert one.n_features_in_ == other.n_features_in_
    assert one.recipe_ == other.recipe_


@pytest.mark.parametrize("name", ["one_target", "two_targets"])
def test_regressors_come_back(name: str, table: Data, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    fitted = request.getfixturevalue(name)
    X = pd.DataFrame(table[0], columns=["first", "second"]) if name == "two_targets" else table[0]
    back = turned(fitted, tmp_path / "file")
    assert_same_state(fitted, back)
    for ours, theirs in zip(fitted.predict(X, return_std=True), back.predict(X, return_std=True), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(fitted.sample_y(X, random_state=0), back.sample_y(X, random_state=0))
    assert_same_state(fitted, turned(back, tmp_path / "file"))


def test_columns_of_every_kind_come_back(tmp_path: Path) -> None:
    X = pd.DataFrame(
        {
            "size": [0.1, np.nan] * 15,
            "colour": ["red", "grün", None] * 10,
            "when": pd.date_range("2024-01-01", periods=30, freq="17h", tz="UTC"),
            "name": [f"n{i}" for i in range(30)],
        }
    )
    fitted = regressor().fit(X, np.arange(30))
    back = turned(fitted, tmp_path / "file")
    assert_same_state(fitted, back)
    assert back.columns_ == fitted.columns_
    np.testing.assert_array_equal(back.predict(X), fitted.predict(X))
    _, document, tensors = archive.read(tmp_path / "file", "estimator")
    document["columns"]["columns"][1]["shares"].pop()
    archive.write(tmp_path / "edited", "estimator", document, tensors)
    with pytest.raises(ValueError, match="column 'colour' must have different categories, and a share for each"):
        actgp.load(tmp_path / "edited")


@pytest.mark.parametrize("name", ["two_classes", "three_classes"])
def test_classifiers_come_back(name: str, table: Data, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    fitted = request.getfixturevalue(name)
    back = turned(fitted, tmp_path / "file")
    assert_same_state(fitted, back)
    np.testing.assert_array_equal(fitted.predict_proba(table[0]), back.predict_proba(table[0]))
    np.testing.assert_array_equal(fitted.predict(table[0]), back.predict(table[0]))


def test_names_of_columns_are_checked_after_loading(
    two_targets: actgp.DGPRegressor, table: Data, tmp_path: Path
) -> None:
    back = turned(two_targets, tmp_path / "file")
    with pytest.raises(ValueError, match="feature names should match"):
        back.predict(pd.DataFrame(table[0], columns=["second", "first"]))


@pytest.mark.parametrize(
    "labels",
    [
        np.array([False, True]),
        np.array([1.0, 3.0], dtype=np.float32),
        np.array([-5, 7, 200], dtype=np.int16),
        np.array(["zebra", "ä"], dtype=object),
        np.array([0, 2**63], dtype=np.uint64),
    ],
    ids=lambda labels: str(labels.dtype),
)
def test_labels_of_every_kind(
    labels: NDArray[Any], two_classes: actgp.DGPClassifier, three_classes: actgp.DGPClassifier, tmp_path: Path
) -> None:
    fitted = copy.copy(two_classes if len(labels) == 2 else three_classes)
    fitted.classes_ = labels
    assert_same_state(fitted, turned(fitted, tmp_path / "file"))


def test_parameters_of_every_kind(table: Data, tmp_path: Path) -> None:
    for activation in (actgp.Softplus(2.5), actgp.Softplus(learnable=True), "softplus"):
        layers = actgp.Layers(activation, kernel="matched", num_points=np.int64(3), prior_mean="zero")
        estimator = regressor(layers=layers, recipe=None, device="cpu", random_state=None)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(actgp.Recipe, "suited_to", lambda _: actgp.Recipe(network_steps=2, num_steps=1))
            estimator.fit(*table)
        back = turned(estimator, tmp_path / "file")
        assert_same_state(estimator, back)
        if not isinstance(activation, str):
            state = back.layers.activation.state_dict()
            assert all(torch.equal(state[name], value) for name, value in activation.state_dict().items())
        np.testing.assert_array_equal(back.predict(table[0]), estimator.predict(table[0]))


def test_what_no_file_holds_is_refused(
    one_target: actgp.DGPRegressor, two_classes: actgp.DGPClassifier, tmp_path: Path
) -> None:
    class Mine(actgp.DGPRegressor):
        pass

    drawn = copy.copy(one_target).set_params(random_state=np.random.RandomState(0))
    with pytest.raises(TypeError, match="random_state must be an integer or None, got a RandomState; call set_params"):
        drawn.save(tmp_path / "file")
    bytes_ = copy.copy(two_classes)
    bytes_.classes_ = np.array([b"a", b"b"])
    with pytest.raises(TypeError, match="labels must be numbers or strings, got the dtype .S1; fit with"):
        bytes_.save(tmp_path / "file")
    own = Mine()
    vars(own).update(vars(one_target))
    with pytest.raises(TypeError, match="an estimator must be of a class of actgp, got Mine, whose code no file holds"):
        own.save(tmp_path / "file")
    code = copy.copy(one_target).set_params(layers__activation=actgp.CustomActivation(torch.sin))
    with pytest.raises(TypeError, match="parameters.layers.activation must be one of .*, got CustomActivation"):
        code.save(tmp_path / "file")
    assert not (tmp_path / "file").exists()
    with pytest.raises(ValueError, match="not fitted yet"):
        classifier().save(tmp_path / "file")


def test_load_reads_models_too_and_nothing_else(one_target: actgp.DGPRegressor, tmp_path: Path) -> None:
    one_target.model_.save(tmp_path / "model")
    assert isinstance(actgp.load(tmp_path / "model"), actgp.DeepGP)
    archive.write(tmp_path / "other", "checkpoint", {}, {})
    with pytest.raises(ValueError, match="must hold a file of kind 'model' or 'estimator', got 'checkpoint'; choose"):
        actgp.load(tmp_path / "other")
    one_target.save(tmp_path / "estimator")
    with pytest.raises(ValueError, match="an estimator must be loaded without a backbone, got Identity; leave it out"):
        actgp.load(tmp_path / "estimator", backbone=torch.nn.Identity())


def test_changed_bytes_are_found_out(one_target: actgp.DGPRegressor, tmp_path: Path) -> None:
    one_target.save(tmp_path / "file")
    data = bytearray((tmp_path / "file").read_bytes())
    for position in np.random.default_rng(0).integers(len(data), size=30):
        damaged = data.copy()
        damaged[position] ^= 1
        (tmp_path / "file").write_bytes(damaged)
        with pytest.raises(ValueError, match="must"):
            actgp.load(tmp_path / "file")


REGRESSORS: list[tuple[Edit, str]] = [
    (lambda d, t: d.pop("class"), "class one of .*'FittedRegressor'.*, got None"),
    (lambda d, t: d.update({"class": "Pipeline"}), "class one of"),
    (lambda d, t: d.pop("parameters"), "must have an entry parameters, got none"),
    (lambda d, t: d["parameters"].update(num_layers=0), "num_layers must be at least 1, got 0"),
    (lambda d, t: d["parameters"].update(num_samples="8"), "num_samples of type int, got '8'"),
    (lambda d, t: d["parameters"].update(layers="matched"), "layers of type Layers or None, got 'matched'"),
    (lambda d, t: d["parameters"]["layers"].update(kernel="rbf"), "kernel one of"),
    (lambda d, t: d["parameters"]["layers"].update(num_levels=0), "num_levels from 1 to"),
    (lambda d, t: d["parameters"]["layers"].update(horizon=-1.0), "horizon must be"),
    (lambda d, t: d["parameters"].update(random_state=1.5), "random_state of type int or RandomState or None, got 1.5"),
    (lambda d, t: d["parameters"]["layers"].update(activation=3), "activation of type str or Activation, got 3"),
    (lambda d, t: d["parameters"]["layers"].update(activation={"class": "Sine"}), "class one of"),
    (lambda d, t: d["parameters"].update(progress=None), "progress of type bool"),
    (
        lambda d, t: d["parameters"]["recipe"].pop("patience"),
        "parameters.recipe must have patience as it was built, 1000, got None",
    ),
    (lambda d, t: d["recipe"].update(num_steps=-1), "of recipe must be one that can be built, .*num_steps must be at"),
    (
        lambda d, t: d.update(recipe=None),
        "a DeepGP must have the recipe .* and a Mixture none, got a DeepGP with None",
    ),
    (lambda d, t: d["columns"]["columns"].pop(), "2 scales, and 2 numbers that columns become, got 2 and 1"),
    (lambda d, t: d["columns"].update(columns=[]), "columns must have different names, all of type int, got "),
    (lambda d, t: d["columns"].update(named=True), "columns must have different names, all of type str, got "),
    (lambda d, t: d["columns"]["columns"][0].update(name=1), "columns must have different names, all of type int"),
    (lambda d, t: d["columns"]["columns"][0].update(kind="picture"), "kind one of"),
    (lambda d, t: d["columns"]["columns"][0].update(fill="0"), "fill of type float"),
    (lambda d, t: d["columns"]["columns"][0].update(indicates=True), "2 numbers that columns become, got 2 and 3"),
    (lambda d, t: d.pop("model"), "must have an entry model, got none"),
    (lambda d, t: d["model"].update({"class": "SVGP"}), "model must have no entry layers"),
    (lambda d, t: d["model"]["likelihood"].update({"class": "BernoulliLikelihood"}), "must have"),
    (lambda d, t: d.pop("inputs"), "must have an entry inputs, got none"),
    (lambda d, t: d["targets"].update(rows=0), "rows must be at least 1"),
    (lambda d, t: d.update(single_target=1), "single_target of type bool"),
    (lambda d, t: t.pop("inputs.mean"), "inputs must have a tensor mean, got none"),
    (lambda d, t: t.update({"inputs.scale": torch.ones(3)}), "a tensor scale of shape"),
    (lambda d, t: t["targets.scale"].zero_(), "scales above zero"),
    (lambda d, t: t["targets.mean"].fill_(float("nan")), "finite numbers"),
    (lambda d, t: t.update({"inputs.var": torch.ones(2)}), "in double precision"),
    (lambda d, t: t.pop("model.layers.0.q.raw_mean"), "layers.0.q.raw_mean|must have"),
    (
        lambda d, t: t.update({k: v.float() for k, v in t.items() if k.startswith("model.")}),
        "the model must be in double precision",
    ),
]
CLASSIFIERS: list[tuple[Edit, str]] = [
    (lambda d, t: d.pop("classes"), "must have an entry classes, got none"),
    (lambda d, t: d["classes"].update(values=["a", "b"]), "a DeepGP or a Mixture with BernoulliLikelihood"),
    (lambda d, t: d["classes"].update(values=["a", "b", "c", "d"]), "outputs that 4 classes need, got 3"),
    (lambda d, t: d["classes"].update(values=["a", "c", "b"]), "two or more different values, sorted"),
    (lambda d, t: d["classes"].update(values=["a", "b", "longer than the dtype"]), "two or more different"),
    (lambda d, t: d["classes"].update(values=["a"]), "two or more different"),
    (lambda d, t: d["classes"].update(values=[1, 2, 3]), "values of type str"),
    (lambda d, t: d["classes"].update(dtype="O"), "numbers or strings, got the dtype O"),
    (lambda d, t: d["classes"].update(dtype="i3", values=[1, 2, 3]), "values that fit into i3"),
    (lambda d, t: d["classes"].update(dtype="i1", values=[1, 2, 300]), "values that fit into i1"),
    (lambda d, t: d.update({"class": "FittedRegressor"}), "must have no entry classes|class one of"),
]


@pytest.mark.parametrize(
    ("name", "edit", "message"),
    [
        *(("one_target", *case) for case in REGRESSORS),
        *(("three_classes", *case) for case in CLASSIFIERS),
        ("two_targets", lambda d, t: d.update(single_target=True), "one output for a single target, .*, got 2"),
    ],
)
def test_malformed_descriptions(
    name: str, edit: Edit, message: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(name).save(tmp_path / "file")
    _, document, tensors = archive.read(tmp_path / "file", "estimator")
    actgp.load(tmp_path / "file")
    edit(document, tensors)
    archive.write(tmp_path / "edited", "estimator", document, tensors)
    with pytest.raises(ValueError, match=message):
        actgp.load(tmp_path / "edited")
