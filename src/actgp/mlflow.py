"""What MLflow needs to serve an estimator from the file that its `save` has written. Nothing is pickled.

    estimator.save("model.actgp")
    mlflow.pyfunc.save_model(path, loader_module="actgp.mlflow", data_path="model.actgp")

`mlflow.pyfunc.log_model` takes the same two arguments. MLflow calls `_load_pyfunc`, by that name.
"""

import importlib
from typing import Any

from actgp.estimators import DGPClassifier, DGPRegressor
from actgp.loading import load

LEVEL = 0.95  # of intervals


class Served:
    """An estimator as MLflow calls it: a table in, a table out.

    Args:
        estimator: A fitted estimator.
    """

    def __init__(self, estimator: DGPRegressor | DGPClassifier) -> None:
        self.estimator = estimator

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        """Means, standard deviations and intervals of y, or the probability of each class.

        Args:
            model_input: The rows, as for the estimator.
            params: `{"level": 0.9}` for other intervals than those of 95 %; MLflow passes what the signature names.

        Returns:
            A pandas DataFrame with columns "mean", "std", "lower" and "upper", for several targets "mean 0", "mean 1"
            and so on; or with a column for each class.
        """
        table = importlib.import_module("pandas").DataFrame  # only now: MLflow needs it, and nothing else here does
        if isinstance(self.estimator, DGPClassifier):
            return table(self.estimator.predict_proba(model_input), columns=self.estimator.classes_)
        mean, std = self.estimator.predict(model_input, return_std=True)
        lower, upper = self.estimator.predict_interval(model_input, (params or {}).get("level", LEVEL))
        columns = {"mean": mean, "std": std, "lower": lower, "upper": upper}
        if mean.ndim == 1:
            return table(columns)
        return table({f"{name} {i}": v for name, values in columns.items() for i, v in enumerate(values.T)})


def _load_pyfunc(path: str) -> Served:
    """Called by MLflow with the path of the file."""
    estimator = load(path)
    if not isinstance(estimator, DGPRegressor | DGPClassifier):
        raise TypeError(
            f"MLflow serves files of estimators, got one of a {type(estimator).__name__}; save an estimator, "
            "or give MLflow a loader module of your own around actgp.load"
        )
    return Served(estimator)
