"""Deep GPs behind backbones: scaled or reduced features, and one pass of each input through the backbone."""

from pathlib import Path
from typing import Any

import pytest
import torch
from gpytorch.likelihoods import GaussianLikelihood, SoftmaxLikelihood
from torch import Tensor, nn

import actgp
from actgp.models import deep


def images(N: int = 60) -> Tensor:
    return torch.rand(N, 1, 6, 6, generator=torch.Generator().manual_seed(0))


def convolutions() -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten())  # 48 features


@pytest.mark.parametrize("reduce_to", [None, 5])
def test_features_are_centred_and_of_the_same_size(reduce_to: int | None, dtype: torch.dtype) -> None:
    X = images().to(dtype)
    model = actgp.hybrid(convolutions().to(dtype), X, 3, num_inducing=8, reduce_to=reduce_to)
    h = model.enter(X)
    assert h.shape == (60, 48 if reduce_to is None else 5)
    assert h.dtype == dtype
    torch.testing.assert_close(h.mean(0), torch.zeros_like(h[0]), atol=1e-4, rtol=0)
    torch.testing.assert_close(h.square().sum(1).mean().item(), 16.0, atol=1e-3, rtol=0)


def test_a_reduction_keeps_the_directions_of_most_variance() -> None:
    X = images()
    whole, reduced = (actgp.hybrid(convolutions(), X, 3, num_inducing=8, reduce_to=k).enter(X) for k in (None, 5))
    eigenvalues = torch.linalg.eigvalsh(whole.T.cov())[-5:].flip(0)
    torch.testing.assert_close(reduced.var(0) / reduced.var(0).sum(), eigenvalues / eigenvalues.sum())


@pytest.mark.parametrize("trained", [False, True])
def test_a_reduction_is_trained_where_the_backbone_is(trained: bool) -> None:
    backbone = convolutions().requires_grad_(trained)
    model = actgp.hybrid(backbone, images(), 3, num_inducing=8, reduce_to=5)
    assert all(p.requires_grad == trained for p in model.backbone.parameters())


def test_it_is_a_classifier_unless_told_otherwise() -> None:
    X = images()
    classifier = actgp.hybrid(convolutions(), X, 3, num_inducing=8)
    assert isinstance(classifier.likelihood, SoftmaxLikelihood)
    assert [layer.num_outputs for layer in classifier.gp_layers] == [3, 3]
    assert classifier.predict(X).probabilities.shape == (60, 3)
    model = actgp.hybrid(
        convolutions(), X, 1, 3, num_inducing=8, layers=actgp.Layers(hidden_dim=4), likelihood=GaussianLikelihood()
    )
    assert [layer.num_outputs for layer in model.gp_layers] == [4, 4, 1]
    assert model.predict(X).mean.shape == (60,)


def test_a_prediction_takes_each_input_through_the_backbone_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deep, "CHUNK", 10 * 8 * 3 * 25)  # 25 rows at a time
    model = actgp.hybrid(convolutions(), images(), 3, num_inducing=8)
    calls: list[int] = []
    model.backbone.register_forward_hook(lambda module, inputs, output: calls.append(len(inputs[0])))
    model.predict(images(), num_samples=10)
    assert calls == [25, 25, 10]


def test_it_learns_and_is_saved(tmp_path: Path) -> None:
    X = images(300)
    y = (X[:, 0, :3].mean((1, 2)) > X[:, 0, 3:].mean((1, 2))).long()
    g = torch.Generator().manual_seed(0)
    model = actgp.hybrid(convolutions().requires_grad_(False), X, 2, num_inducing=16, generator=g)
    recipe = actgp.Recipe(network_steps=150, num_steps=30, objective="elbo")
    actgp.fit(model, X[:250], y[:250], recipe, generator=g, progress=False)
    probabilities = model.predict(X[250:]).probabilities
    assert (probabilities.argmax(1) == y[250:]).float().mean() > 0.8
    model.save(tmp_path / "model")
    own = actgp.hybrid(convolutions(), X, 2, num_inducing=16).backbone
    loaded = actgp.load(tmp_path / "model", backbone=own)
    assert torch.equal(loaded.predict(X[250:]).probabilities, probabilities)


@pytest.mark.parametrize("wrong", [{"reduce_to": 99}, {"num_layers": 0}, {"num_inducing": 0}])
def test_a_refusal_leaves_the_backbone_in_its_mode(wrong: dict[str, Any]) -> None:
    backbone = convolutions().train()
    with pytest.raises(ValueError, match="reduce_to must|num_layers must|num_inducing must"):
        actgp.hybrid(backbone, images(), 3, **wrong)
    assert all(module.training for module in backbone.modules())


def test_what_it_refuses() -> None:
    with pytest.raises(
        ValueError, match=r"a backbone must give features \[N, D\], got \[60, 3, 4, 4\]; end it with nn"
    ):
        actgp.hybrid(convolutions()[:2], images(), 3)
    with pytest.raises(
        ValueError, match="reduce_to must be at most 48, the features and rows that there are, got 49; lo"
    ):
        actgp.hybrid(convolutions(), images(), 3, reduce_to=49)
    with pytest.raises(
        ValueError, match=r"X must have shape \[N, …\] with at least two rows, got \[1, 1, 6, 6\]; pass"
    ):
        actgp.hybrid(convolutions(), images(1), 3)


class Pair(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.flatten(1), x


def test_what_is_no_backbone_is_refused() -> None:
    X = images()
    for backbone, rows, error, match in (
        (lambda x: x.flatten(1), X, TypeError, "backbone must be a torch.nn.Module, got function; wrap the function"),
        (convolutions(), X.double(), TypeError, "X must have the precision of the model, float32, got float64"),
        (Pair(), X, ValueError, r"a backbone must give features \[N, D\], got tuple; .* return one tensor"),
    ):
        with pytest.raises(error, match=match):
            actgp.hybrid(backbone, rows, 3, num_inducing=8)  # type: ignore[arg-type]


def test_one_output_is_no_softmax() -> None:
    with pytest.raises(ValueError, match=r"num_outputs must be at least 2, .*, got 1; pass likelihood=GaussianLikelih"):
        actgp.hybrid(convolutions(), images(), 1, num_inducing=8)
    actgp.hybrid(convolutions(), images(), 1, num_inducing=8, likelihood=GaussianLikelihood())


def test_inputs_of_another_size_are_refused() -> None:
    model = actgp.hybrid(convolutions(), images(), 3, num_inducing=8)
    for X in (torch.rand(2, 1, 7, 7), images()[0]):
        with pytest.raises(
            ValueError, match="as many features as when the model was built, 48, got .*same size as then"
        ):
            model.predict(X)
    torch.fx.symbolic_trace(model.backbone)
