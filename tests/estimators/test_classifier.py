import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_iris
from sklearn.model_selection import cross_val_score
from small_estimators import Data, classifier

import actgp


def test_strings(three_classes: actgp.DGPClassifier, table: Data, words: NDArray[np.str_]) -> None:
    X, _ = table
    assert three_classes.classes_.tolist() == ["high", "low", "medium"]
    assert three_classes.score(X, words) > 0.85
    assert three_classes.model_.num_outputs == 3
    assert three_classes.score(X, np.full(len(X), "never seen")) == 0.0


def test_pandas(three_classes: actgp.DGPClassifier, table: Data, words: NDArray[np.str_]) -> None:
    X, y = pd.DataFrame(table[0], columns=["first", "second"]), pd.Series(words)
    fitted = classifier().fit(X, y)
    assert fitted.feature_names_in_.tolist() == ["first", "second"]
    np.testing.assert_array_equal(fitted.predict(X), three_classes.predict(table[0]))
    fitted.fit(table[0], y)
    assert not hasattr(fitted, "feature_names_in_")


def test_two_classes_have_one_latent_function(two_classes: actgp.DGPClassifier, table: Data) -> None:
    X, y = table
    assert two_classes.classes_.tolist() == [3, 4]
    assert two_classes.model_.num_outputs == 1
    assert two_classes.score(X, (y > 500).astype(int) + 3) > 0.85


@pytest.mark.parametrize("name", ["two_classes", "three_classes"])
def test_probabilities(name: str, table: Data, request: pytest.FixtureRequest) -> None:
    fitted, X = request.getfixturevalue(name), table[0]
    probabilities = fitted.predict_proba(X)
    assert probabilities.shape == (60, len(fitted.classes_))
    assert np.all(probabilities >= 0)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(fitted.classes_[probabilities.argmax(axis=1)], fitted.predict(X))
    np.testing.assert_allclose(np.exp(fitted.predict_log_proba(X)), probabilities, atol=1e-12)
    np.testing.assert_allclose(fitted.predict_proba(X[::-1])[::-1], probabilities, rtol=1e-9)
    copy = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copy.predict_proba(X), probabilities)


@pytest.mark.parametrize("name", ["two_classes", "three_classes"])
def test_far_from_all_data_classes_are_equally_probable(name: str, request: pytest.FixtureRequest) -> None:
    fitted: actgp.DGPClassifier = request.getfixturevalue(name)
    angles = np.linspace(0, 2 * np.pi, 7)
    rays = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    near, *far = [np.abs(fitted.predict_proba(r * rays) - 1 / len(fitted.classes_)).mean() for r in (1, 1e3, 1e6)]
    assert max(far) < min(0.03, near / 2)


def test_logarithms_where_probabilities_round_to_zero(two_classes: actgp.DGPClassifier, table: Data) -> None:
    sure = pickle.loads(pickle.dumps(two_classes))
    with torch.no_grad():
        sure.model_.layers[-1].q.raw_mean.mul_(1e3)
    logarithms = sure.predict_log_proba(table[0])
    assert np.isfinite(logarithms).all()
    assert (sure.predict_proba(table[0]) == 0).any()
    assert logarithms.min() < -50


def test_it_works_in_cross_validation() -> None:
    X, y = load_iris(return_X_y=True)
    assert cross_val_score(classifier(), X, y, cv=3).min() > 0.85


def test_one_class_is_refused(table: Data) -> None:
    X, _ = table
    with pytest.raises(ValueError, match="y must hold at least two classes, got 1 class, 'a'; add rows"):
        classifier().fit(X, np.full(len(X), "a"))


def test_real_targets_are_refused(table: Data) -> None:
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        classifier().fit(*table)


def test_missing_labels_are_refused(table: Data, words: NDArray[np.str_]) -> None:
    labels = pd.Series(words, name="height", dtype=object)
    labels[[3, 9]] = None
    with pytest.raises(ValueError, match="y must have no missing values, got 2 in column 'height', the first in row 3"):
        classifier().fit(table[0], labels)
