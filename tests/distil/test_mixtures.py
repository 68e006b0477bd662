"""A student of a mixture has its composed means, and the distance of its heaviest member of one layer."""

from functools import partial
from pathlib import Path

import pandas as pd
import pytest
import torch
from torch import Tensor

import actgp
from actgp.distil import outputs
from actgp.distil.mixed_trunk import MixedTrunk, nearest_member
from actgp.estimators import base
from actgp.models import Networks


def deep(input_dim: int, prior_mean: str, num_layers: int, seed: int) -> actgp.DeepGP:
    g = torch.Generator().manual_seed(seed)
    layers = []
    for each in (["identity"] * (num_layers - 1)) + [prior_mean]:
        features = actgp.InducingPoints(torch.randn(6, 3, generator=g))
        width = 3 if each == "identity" else 1
        layers.append(actgp.GPLayer(actgp.ArcCosine(3), features, width, each))  # type: ignore[arg-type]
        layers[-1].q.raw_mean.data.normal_(generator=g)
    return actgp.DeepGP(layers, actgp.ContaminatedGaussianLikelihood(input_dim=input_dim)).double()


@pytest.fixture(scope="module")
def mixture() -> actgp.Mixture:
    g = torch.Generator().manual_seed(7)
    networks = Networks(4, 3, width=8, num_groups=2, generator=g).double()
    with torch.no_grad():
        networks.last.normal_(generator=g).mul_(0.3)
    plain = [deep(3, "zero", 1, 0), deep(3, "zero", 2, 1), deep(3, "zero", 1, 2)]
    weights = torch.tensor([1.0, 4.0, 2.0, 3.0], dtype=torch.float64)
    return actgp.Mixture(plain, [deep(4, "carried", 1, 3)], weights, networks).eval()


@torch.no_grad()
def test_what_is_exact(mixture: actgp.Mixture, rows: Tensor) -> None:
    assert nearest_member(mixture) == 2
    X = torch.cat([rows, 1e3 * rows])
    along = MixedTrunk(mixture)(X)
    torch.testing.assert_close(along.mean[:, 0], mixture.mean(X))
    layer = mixture.members[2].gp_layers[0]
    torch.testing.assert_close(along.unexplained[:, 0], layer.unexplained(X) * layer.kernel(X, diag=True))


def test_the_default_estimator_has_a_student(rows: Tensor, tmp_path: Path) -> None:
    X = rows[:29]  # too few for networks
    y = torch.sin(2 * X[:, 0]) + X[:, 1]
    estimator = actgp.DGPRegressor(effort="fast", num_samples=4, random_state=0).fit(X.numpy(), 5 + 3 * y.numpy())
    assert isinstance(estimator.model_, actgp.Mixture)
    student = actgp.distill(estimator, X, num_places=1_000, num_steps=200)
    assert abs(student.report.coverage) < 0.1
    error = student.predict(X).mean - torch.from_numpy(estimator.predict(X.numpy()))
    assert error.abs().max() < 1.0
    with pytest.raises(TypeError, match="a DeepGP or an estimator with one, got Mixture; export a student of it"):
        actgp.export(estimator, tmp_path / "never.onnx", X)


@pytest.mark.filterwarnings("ignore::actgp.FidelityWarning")
def test_an_estimator_keeps_its_student(rows: Tensor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "distill", partial(actgp.distill, num_places=100, num_steps=5))
    X = {"number": rows[:29, 0].tolist(), "word": ["a", "b", "c"] * 9 + ["a", "b"]}
    estimator = actgp.DGPRegressor(effort="fast", num_samples=4, random_state=0)
    assert estimator.fit(pd.DataFrame(X), rows[:29, 1].numpy()).student_ is None
    student = estimator.distill(pd.DataFrame(X))
    estimator.save(tmp_path / "estimator")
    loaded, numbers = actgp.load(tmp_path / "estimator").student_, torch.from_numpy(estimator.encode(pd.DataFrame(X)))
    assert torch.equal(student.predict(numbers).mean, loaded.predict(numbers).mean)
    assert estimator.fit(pd.DataFrame(X), rows[:29, 1].numpy()).student_ is None


@pytest.mark.filterwarnings("ignore::actgp.FidelityWarning")
def test_files_give_it_back(
    mixture: actgp.Mixture, rows: Tensor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    student = actgp.distill(mixture, rows, num_places=200, num_steps=5, num_samples=2)
    path = tmp_path / "student.actgp"
    student.save(path)
    for own, other in zip(student(rows), actgp.load(path)(rows), strict=True):
        assert torch.equal(own, other)
    monkeypatch.setattr(outputs, "HALVINGS", 2)  # of intervals; the file is quicker to write
    assert actgp.export(student, tmp_path / "student.onnx", rows).difference < 1e-5


@pytest.mark.filterwarnings("ignore::actgp.FidelityWarning")
def test_without_a_member_of_one_layer_another_model_stands_in(mixture: actgp.Mixture, rows: Tensor) -> None:
    alone = actgp.Mixture([], [mixture.members[3]], torch.ones(1).double(), mixture.networks).eval()
    assert nearest_member(alone) is None
    student = actgp.distill(alone, rows, num_places=200, num_steps=5, num_samples=2)
    assert isinstance(student.structure, actgp.DeepGP)
    assert student.predict(rows).mean.shape == (300,)
