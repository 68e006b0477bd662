import numpy as np
import pytest
from small_estimators import Data

import actgp
from actgp.estimators import recipe_for


def test_training_grows_with_the_table() -> None:
    model = actgp.deep_gp(2, num_layers=2, num_inducing=2)
    recipes = [recipe_for(model, rows) for rows in (2, 50, 200, 700, 3_000, 8_000, 50_000, 10**7)]
    for name in ("network_steps", "num_steps", "batch_size"):
        values = [getattr(recipe, name) for recipe in recipes]
        assert values == sorted(values)
        assert values[0] < values[-1]
    assert recipes[0].network_steps == 100
    assert recipes[-1].network_steps == 4_000
    assert all(recipe.num_steps == recipe.network_steps // 2 for recipe in recipes)


def test_one_layer_is_trained_by_its_bound() -> None:
    assert recipe_for(actgp.deep_gp(2, num_layers=1, num_inducing=2), 100).objective == "elbo"
    assert recipe_for(actgp.deep_gp(2, num_layers=2, num_inducing=2), 100).objective == "predictive"


def test_a_small_table_by_defaults(table: Data) -> None:
    X, y = table
    fitted = actgp.DGPRegressor(random_state=0).fit(X[:40], y[:40])
    assert fitted.recipe_.network_steps == 120
    assert all(layer.features.num_inducing == 40 for layer in fitted.model_.gp_layers)
    assert fitted.score(X[40:], y[40:]) > 0.8
    density = fitted.log_density(X[40:], y[40:])
    assert density.mean() > -np.log(np.std(y) * np.sqrt(2 * np.pi)) - 0.5  # better than the spread of y alone


def test_the_default_is_what_is_written_in_the_documentation() -> None:
    parameters = actgp.DGPClassifier().get_params()
    assert parameters == actgp.DGPRegressor().get_params()
    assert parameters["kernel"] == "matched"
    assert parameters["recipe"] is None
    with pytest.raises(TypeError, match="positional"):
        actgp.DGPRegressor(2, 128, "softplus")
