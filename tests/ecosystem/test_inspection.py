"""Explanations, calibration curves, searches, and distributions as score-keepers want them."""

from pathlib import Path

import joblib
import numpy as np
import pytest
from quick_table import CALIBRATION, TEST, TRAIN, Table
from sklearn.calibration import CalibrationDisplay, calibration_curve
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.model_selection import cross_val_score

import actgp


def test_shapleys_values_add_up(regressor: actgp.DGPRegressor, table: Table) -> None:
    shap = pytest.importorskip("shap")
    background, rows = table.X[TRAIN][:20], table.X[TEST][:2]
    for of in (regressor.predict, lambda X: regressor.predict(X, return_std=True)[1]):
        because = shap.Explainer(of, background)(rows)
        np.testing.assert_allclose(because.base_values + because.values.sum(1), of(rows), rtol=1e-9)
        np.testing.assert_allclose(because.base_values, of(background).mean(), rtol=1e-9)


def test_permutations_find_what_matters(regressor: actgp.DGPRegressor, table: Table) -> None:
    found = permutation_importance(regressor, table.X[TEST], table.y[TEST], n_repeats=3, random_state=0)
    first, second, third = found.importances_mean
    assert min(first, second) > 5 * abs(third)
    along = partial_dependence(regressor, table.X[TRAIN], [1], grid_resolution=5)["average"][0]
    assert (np.diff(along) > 0).all()  # y rises with the second column


def test_calibration_curves(classifier: actgp.DGPClassifier, table: Table) -> None:
    pytest.importorskip("matplotlib").use("agg")
    display = CalibrationDisplay.from_estimator(classifier, table.X[TEST], table.labels[TEST], n_bins=4)
    probabilities = classifier.predict_proba(table.X[TEST])[:, 1]
    true, predicted = calibration_curve(table.labels[TEST], probabilities, n_bins=4)
    np.testing.assert_allclose([display.prob_true, display.prob_pred], [true, predicted])


def test_optuna_searches_fields_of_layers_and_recipes(table: Table) -> None:
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    tried = []

    def objective(trial: "optuna.Trial") -> float:
        candidate = actgp.DGPRegressor(num_layers=2, num_inducing=8, random_state=0).set_params(
            layers__activation=trial.suggest_categorical("activation", ["softplus", "gelu"]),
            recipe__network_steps=trial.suggest_int("network_steps", 5, 50),
            recipe__num_steps=5,
        )
        candidate.fit(table.X[TRAIN], table.y[TRAIN])
        tried.append((candidate.layers.activation, candidate.recipe_.network_steps))
        return float(candidate.log_density(table.X[CALIBRATION], table.y[CALIBRATION]).mean())

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(objective, n_trials=3)
    assert tried == [tuple(trial.params.values()) for trial in study.trials]
    assert study.best_value == max(trial.value for trial in study.trials)


def test_optuna_ends_what_is_not_worth_it(table: Table) -> None:
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    torch = pytest.importorskip("torch")
    X, y = torch.tensor(table.X), torch.tensor(table.y)

    def objective(trial: "optuna.Trial") -> float:
        def prune(step: actgp.Step) -> bool:
            trial.report(step.objective, step.step)
            return trial.should_prune()

        model = actgp.deep_gp(input_dim=3, num_layers=2, num_inducing=8).double()
        recipe = actgp.Recipe(network_steps=20, num_steps=0, use_all_rows=False)
        if len(actgp.fit(model, X, y, recipe, callback=prune).objectives) < 20:
            raise optuna.TrialPruned
        return 0.0

    # a step's objective is never above 1e9: all are pruned, at their first step
    study = optuna.create_study(direction="maximize", pruner=optuna.pruners.ThresholdPruner(lower=1e9))
    study.optimize(objective, n_trials=1)
    assert study.trials[0].state == optuna.trial.TrialState.PRUNED
    assert list(study.trials[0].intermediate_values) == [1]


def test_joblib(regressor: actgp.DGPRegressor, table: Table, tmp_path: Path) -> None:
    joblib.dump(regressor, tmp_path / "model.joblib")
    np.testing.assert_array_equal(
        joblib.load(tmp_path / "model.joblib").predict(table.X[TEST]), regressor.predict(table.X[TEST])
    )
    with joblib.parallel_config(backend="threading"):
        assert (cross_val_score(regressor, table.X[TRAIN], table.y[TRAIN], cv=2, n_jobs=2) > 0).all()


def test_skops_refuses_tensors(regressor: actgp.DGPRegressor) -> None:
    """docs/ecosystem.md says so; when this fails, it knows them."""
    skops = pytest.importorskip("skops.io")
    with pytest.raises(RuntimeError, match="TensorBase"):
        skops.dumps(regressor)


def test_quantiles_make_a_distribution(regressor: actgp.DGPRegressor, table: Table) -> None:
    """As ScoringBench's wrappers give it: quantiles [N, K] that rise, from which scores are computed."""
    X, y = table.X[TEST], table.y[TEST]
    levels = (np.arange(199) + 1) / 200
    quantiles = regressor.quantile(X, levels)
    assert quantiles.shape == (40, 199)
    assert (np.diff(quantiles, axis=1) > 0).all()
    # ∂ level / ∂ quantile is the density
    middle = (quantiles[:, 1:] + quantiles[:, :-1]) / 2
    density = np.diff(levels) / np.diff(quantiles, axis=1)
    exact = np.exp(regressor.log_density(X, middle[:, 100]))
    np.testing.assert_allclose(density[:, 100], exact, rtol=1e-3)
    # E|y − Y| − E|Y − Y'| / 2, by draws of Y that are quantiles at random levels, and by pinball losses
    pinball = 2 * np.maximum(levels * (y[:, None] - quantiles), (levels - 1) * (y[:, None] - quantiles)).mean(1)
    spread = np.abs(quantiles[:, :, None] - quantiles[:, None]).mean((1, 2))
    np.testing.assert_allclose(pinball, np.abs(y[:, None] - quantiles).mean(1) - spread / 2, rtol=0.05, atol=0.01)


def test_functions_spread_as_far_as_the_epistemic_part(regressor: actgp.DGPRegressor, table: Table) -> None:
    draws = regressor.sample_y(table.X[TEST], n_samples=300, random_state=0)
    _, std = regressor.predict(table.X[TEST], return_std=True)
    assert draws.shape == (40, 300)
    assert (draws.std(axis=1) < 1.2 * std).all()
