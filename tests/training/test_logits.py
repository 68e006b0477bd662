"""A GP around a trained classifier, fitted at once."""

import pytest
import torch
from gpytorch.likelihoods import BernoulliLikelihood, Likelihood, SoftmaxLikelihood
from gpytorch.priors import LogNormalPrior
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import actgp
from actgp.likelihoods import adapter_of
from actgp.training.closed_form import MOST_LABELS
from actgp.training.data import Batch
from actgp.training.logits import PRICE, fit_logits, log_density

D, P = 3, 4


def softmax() -> SoftmaxLikelihood:
    return SoftmaxLikelihood(num_classes=P, num_features=P, mixing_weights=False)


def carried(likelihood: Likelihood | None = None, num_outputs: int = P) -> actgp.DeepGP:
    points = actgp.InducingPoints(torch.randn(12, D, generator=torch.Generator().manual_seed(3)))
    layer = actgp.GPLayer(actgp.ArcCosine(D), points, num_outputs, "carried")
    return actgp.DeepGP([layer], softmax() if likelihood is None else likelihood).double()


def rows(N: int, seed: int = 0, scale: float = 1.0, shift: float = 0.0) -> Batch:
    """[z, μ], and labels drawn from softmax(scale · μ + shift · z₀ on the first class)."""
    g = torch.Generator().manual_seed(seed)
    h = torch.randn(N, D + P, dtype=torch.float64, generator=g)
    h[:, D:] *= 4
    logits = scale * h[:, D:]
    logits[:, 0] += shift * h[:, 0]
    return h, torch.multinomial(logits.softmax(1), 1, generator=g)[:, 0]


def log_likelihood(logits: Tensor, y: Tensor) -> Tensor:
    return -torch.nn.functional.cross_entropy(logits, y)


def test_a_good_network_is_left_as_it_is() -> None:
    model, (at, y) = carried(), rows(2_000, 2)
    result = actgp.fit(model, *rows(300), held_out=rows(200, 1), progress=False)
    assert result.stopped == "converged"
    assert result.errors is None
    assert torch.equal(model.mean(at), at[:, D:])
    prediction = model.predict(at)
    assert torch.equal(prediction.probabilities.argmax(1), at[:, D:].argmax(1))
    assert prediction.component_variances.min() > 0
    assert prediction.log_prob(y).mean() > log_likelihood(at[:, D:], y) - 10 * PRICE


def test_one_that_is_wrong_in_a_way_that_z_shows_is_corrected() -> None:
    model, (at, y) = carried(), rows(2_000, 2, shift=3.0)
    actgp.fit(model, *rows(600, shift=3.0), held_out=rows(300, 1, shift=3.0), progress=False)
    assert log_likelihood(model.mean(at), y) > log_likelihood(at[:, D:], y) + 0.05


def test_the_surer_it_is_without_reason_the_larger_is_the_variance() -> None:
    def variance(scale: float) -> float:
        model = carried()
        actgp.fit(model, *rows(300, scale=scale), held_out=rows(300, 1, scale=scale), progress=False)
        return model.gp_layers[0].kernel.variance.item()

    assert variance(0.3) > 3 * variance(1.0)


def test_classes_share_the_covariance_which_is_that_of_gauss_newton() -> None:
    model, (h, y) = carried(), rows(300)
    actgp.fit(model, h, y, progress=False)  # without held-out rows the mean stays
    (layer,) = model.gp_layers
    A, S = layer.whiten(h), layer.q.scale_tril
    p = h[:, D:].softmax(1)
    w = (p * (1 - p)).mean(1)  # the mean of the diagonal of diag(p) − p pᵀ
    expected = torch.linalg.inv(torch.eye(12, dtype=torch.float64) + A.T @ (w[:, None] * A))
    torch.testing.assert_close(S @ S.mT, expected.expand(P, -1, -1))
    assert not layer.q.mean.any()


@pytest.mark.parametrize("likelihood", [BernoulliLikelihood(), actgp.BernoulliLogitLikelihood()])
def test_one_logit(likelihood: Likelihood) -> None:
    model = carried(likelihood, 1)
    h, _ = rows(300)
    labels = (h[:, D] > 0).double()
    actgp.fit(model, h[:200, : D + 1], labels[:200], held_out=(h[200:, : D + 1], labels[200:]), progress=False)
    assert ((model.predict(h[:, : D + 1]).mean > 0.5) == (labels > 0.5)).double().mean() > 0.99


def test_loaders_and_both_precisions_agree() -> None:
    train, held_out = rows(300), rows(200, 1)
    first, single, loaded = carried(), carried().float(), carried()
    actgp.fit(first, *train, held_out=held_out, progress=False)
    actgp.fit(single, train[0].float(), train[1], held_out=(held_out[0].float(), held_out[1]), progress=False)
    loader = DataLoader(TensorDataset(*train), batch_size=50, shuffle=True)
    actgp.fit(loaded, loader, held_out=held_out, progress=False)
    expected = first.predict(held_out[0]).probabilities
    torch.testing.assert_close(loaded.predict(held_out[0]).probabilities, expected)
    torch.testing.assert_close(
        single.predict(held_out[0].float()).probabilities.double(), expected, rtol=1e-3, atol=1e-4
    )


def test_priors_join_and_what_is_frozen_stays() -> None:
    free, drawn, frozen = carried(), carried(), carried()
    drawn.gp_layers[0].kernel.register_prior("variance_prior", LogNormalPrior(-9.0, 0.1), "variance")
    frozen.gp_layers[0].kernel.raw_variance.requires_grad_(False)
    for model in (free, drawn, frozen):
        actgp.fit(model, *rows(300), held_out=rows(200, 1), progress=False)
    variances = [model.gp_layers[0].kernel.variance.item() for model in (free, drawn, frozen)]
    assert abs(torch.tensor(variances[1]).log() + 9) < abs(torch.tensor(variances[0]).log() + 9)
    assert variances[2] == pytest.approx(carried().gp_layers[0].kernel.variance.item())


def test_a_few_points_will_do_for_the_integral() -> None:
    h, y = rows(200)
    variance = torch.linspace(0.01, 4, 200, dtype=torch.float64)
    model = carried()
    latent = actgp.Prediction(h[None, :, D:], variance.unsqueeze(-1).expand(-1, P)[None], model.likelihood)
    found = log_density(adapter_of(model.likelihood), y, h[:, D:], variance)
    torch.testing.assert_close(found.mean(), latent.log_prob(y).mean(), rtol=0, atol=0.02)


def test_single_rows_will_do() -> None:
    model = carried()
    objectives = fit_logits(model, rows(1), rows(1, 1))
    assert len(objectives) > 2
    assert torch.isfinite(model.predict(rows(5)[0]).probabilities).all()


def test_of_many_labels_some_go_through_the_network() -> None:
    N = MOST_LABELS + 100
    g = torch.Generator().manual_seed(0)
    X, y = torch.randn(N, 2, generator=g), torch.randint(2, (N,), generator=g)
    network = nn.Linear(2, 2)
    model, _ = actgp.convert(network, X[:50], y[:50], num_inducing=10, generator=g)
    seen: list[int] = []
    model.backbone.register_forward_hook(lambda module, inputs, outputs: seen.append(len(outputs)))
    actgp.fit(model, X, y, held_out=(X[:30], y[:30]), generator=g, progress=False)
    assert sum(seen) == MOST_LABELS + 30
