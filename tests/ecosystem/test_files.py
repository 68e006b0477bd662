"""Files in the hands of others: MLflow, and the hub's folders."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from quick_table import RECIPE, TEST, TRAIN, Table

import actgp
from actgp.mlflow import _load_pyfunc


def test_mlflow_serves_our_file(regressor: actgp.DGPRegressor, table: Table, tmp_path: Path) -> None:
    pyfunc, models = pytest.importorskip("mlflow.pyfunc"), pytest.importorskip("mlflow.models")
    regressor.save(tmp_path / "model.actgp")
    mean, std = regressor.predict(table.X[TEST], return_std=True)
    example = pd.DataFrame({"mean": mean, "std": std, "lower": mean, "upper": mean})
    pyfunc.save_model(
        tmp_path / "served",
        loader_module="actgp.mlflow",
        data_path=str(tmp_path / "model.actgp"),
        signature=models.infer_signature(table.X[TEST], example, params={"level": 0.95}),
        pip_requirements=["actgp"],
    )
    assert not [path for path in (tmp_path / "served").rglob("*") if path.suffix in (".pkl", ".pickle", ".pt")]
    served = pyfunc.load_model(str(tmp_path / "served"))
    answer = served.predict(table.X[TEST])
    np.testing.assert_array_equal(answer[["mean", "std"]], np.stack([mean, std], axis=1))
    for given, level in (({}, 0.95), ({"level": 0.5}, 0.5)):
        ends = served.predict(table.X[TEST], params=given)[["lower", "upper"]]
        np.testing.assert_array_equal(ends.to_numpy().T, regressor.predict_interval(table.X[TEST], level))


def test_labels_and_several_targets_are_served(classifier: actgp.DGPClassifier, table: Table, tmp_path: Path) -> None:
    path = tmp_path / "model.actgp"
    classifier.save(path)
    answer = _load_pyfunc(str(path)).predict(table.X[TEST])
    assert list(answer.columns) == [0, 1]
    np.testing.assert_array_equal(answer, classifier.predict_proba(table.X[TEST]))
    both = np.stack([table.y, -table.y], axis=1)
    two = actgp.DGPRegressor(num_layers=1, num_inducing=8, recipe=RECIPE).fit(table.X[TRAIN], both[TRAIN])
    two.save(path)
    answer = _load_pyfunc(str(path)).predict(pd.DataFrame(table.X[TEST]))
    np.testing.assert_array_equal(answer[["mean 0", "mean 1"]], two.predict(table.X[TEST]))
    assert answer.shape == (40, 8)


def test_models_are_not_served(tmp_path: Path) -> None:
    actgp.deep_gp(input_dim=2, num_layers=1, num_inducing=4).save(tmp_path / "model.actgp")
    with pytest.raises(TypeError, match="MLflow serves files of estimators, got one of a DeepGP; save an estimator"):
        _load_pyfunc(str(tmp_path / "model.actgp"))


def test_a_folder_of_the_hub(tmp_path: Path) -> None:
    hub = pytest.importorskip("huggingface_hub")

    class Shared(hub.ModelHubMixin):
        def __init__(self, model: actgp.DeepGP) -> None:
            self.model = model

        def _save_pretrained(self, save_directory: Path) -> None:
            self.model.save(save_directory / "model.actgp")

        @classmethod
        def _from_pretrained(cls, *, model_id: str, **options: object) -> "Shared":
            return cls(actgp.load(Path(model_id) / "model.actgp"))

    model = actgp.deep_gp(input_dim=2, num_layers=2, num_inducing=8)
    Shared(model).save_pretrained(tmp_path / "shared")
    again = Shared.from_pretrained(tmp_path / "shared").model
    X = torch.randn(5, 2)
    assert torch.equal(again.predict(X).mean, model.predict(X).mean)
