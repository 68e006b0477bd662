"""The last layer in closed form: where the bound has no gradient left, and Titsias' bound for one layer."""

import pytest
import torch
from gpytorch.likelihoods import BernoulliLikelihood, GaussianLikelihood

import actgp
from actgp.training.data import TensorBatches
from actgp.training.last_layer import solve_last_layer


def rows(num_outputs: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    X = torch.randn(60, 3, dtype=torch.float64, generator=g)
    columns = [torch.sin(X[:, p]) * X[:, 2] + 0.1 * torch.randn(60, dtype=torch.float64, generator=g) for p in range(2)]
    return X, columns[0] if num_outputs == 1 else torch.stack(columns, dim=1)


def solved(model: actgp.DeepGP, X: torch.Tensor, y: torch.Tensor, weight: float = 1.0) -> actgp.DeepGP:
    solve_last_layer(model, TensorBatches(X, y, 7, torch.Generator()), weight)
    return model


@pytest.mark.parametrize("num_outputs", [1, 2])
def test_one_layer_has_the_collapsed_bound(num_outputs: int) -> None:
    X, y = rows(num_outputs)
    features = actgp.ActivatedFeatures(3, 12, generator=torch.Generator().manual_seed(1))
    sgpr = actgp.SGPR(X, y, actgp.ArcCosine(3), features)
    model = actgp.SVGP(sgpr.kernel, features, sgpr.likelihood, num_outputs).double()
    before = model.elbo(X, y, len(X)).item()
    bound = solved(model, X, y).elbo(X, y, len(X))
    torch.testing.assert_close(bound, sgpr.elbo(), rtol=1e-6, atol=1e-6)
    assert bound.item() > before


@pytest.mark.parametrize("points", [0, 5])
@pytest.mark.parametrize("weight", [1.0, 0.3])
def test_no_gradient_is_left(points: int, weight: float) -> None:
    X, y = rows()
    g = torch.Generator().manual_seed(2)
    model = actgp.deep_gp(
        3,
        num_layers=1,
        num_inducing=12,
        layers=actgp.Layers(num_points=points),
        likelihood=GaussianLikelihood(),
        generator=g,
    ).double()
    q = model.gp_layers[0].q
    for solve in (False, True):
        if solve:
            solved(model, X, y, weight)
        model.zero_grad()
        data = model.elbo(X, y, len(X)) + model.kl()
        (data - weight * model.kl()).backward()
        used = q.raw_mean.grad[: q.num_means]
        assert (used.abs().max() < 1e-7) == solve
        assert (q.raw_scale_tril.grad.abs().max() < 1e-7) == solve


@pytest.mark.parametrize("prior_mean", ["zero", "identity"])
def test_layers_below_are_taken_by_their_means(prior_mean: str) -> None:
    X, y = rows()
    g = torch.Generator().manual_seed(3)
    below, last = (
        actgp.GPLayer(actgp.ArcCosine(3), actgp.ActivatedFeatures(3, 9, generator=g), 3, prior)
        for prior in ("identity", prior_mean)
    )
    with torch.no_grad():
        below.q.raw_mean.normal_(generator=g)
    model = actgp.DeepGP([below, last], GaussianLikelihood()).double()
    y = torch.stack([y, 2 * y, -y], dim=1)
    solved(model, X, y)
    alone = actgp.DeepGP([last], model.likelihood)
    (h,) = model.hidden_means(X)[1:]
    alone.elbo(h.detach(), y, len(X)).backward()
    assert last.q.raw_mean.grad.abs().max() < 1e-7


def test_fit_begins_stage_2_with_it() -> None:
    X, y = rows()
    steps = []
    for solve in (False, True):
        g = torch.Generator().manual_seed(4)
        model = actgp.deep_gp(3, num_layers=2, num_inducing=8, likelihood=GaussianLikelihood(), generator=g).double()
        recipe = actgp.Recipe(network_steps=5, num_steps=1, objective="elbo", validation=0.0, solve=solve)
        result = actgp.fit(model, X, y, recipe, generator=g, progress=False)
        steps.append(result.objectives[0])
    assert steps[1] > steps[0]


def refused(model: actgp.DeepGP, y: torch.Tensor, complaint: str) -> None:
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(ValueError, match=complaint):
        actgp.fit(model, rows()[0], y, actgp.Recipe(network_steps=1, num_steps=1, solve=True), progress=False)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_what_has_no_closed_form_is_refused_before_anything_changes() -> None:
    _, y = rows()
    refused(actgp.deep_gp(3, num_inducing=8).double(), y, "plain Gaussian noise, got Contaminated.*leave solve out")
    classes = actgp.deep_gp(3, num_inducing=8, likelihood=BernoulliLikelihood()).double()
    refused(classes, (y > 0).long(), "got BernoulliLikelihood")
    frozen = actgp.deep_gp(3, num_inducing=8, likelihood=GaussianLikelihood()).double()
    frozen.gp_layers[-1].q.raw_mean.requires_grad_(False)
    refused(frozen, y, "frozen; free it")
