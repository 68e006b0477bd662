"""Priors that are registered on parameters are part of what every fit maximises."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from gpytorch.kernels import Kernel, RBFKernel, ScaleKernel
from gpytorch.likelihoods import BernoulliLikelihood, GaussianLikelihood
from gpytorch.mlls import ExactMarginalLogLikelihood
from gpytorch.priors import GammaPrior, LogNormalPrior, NormalPrior, UniformPrior
from torch import Tensor

import actgp
from actgp.training.calibrate import calibrate_temperature, choose_factors
from actgp.training.objectives import log_prior, network_objective, posterior_objective, prior_share

G = torch.Generator
RECIPE = actgp.Recipe(network_steps=100, num_steps=200, network_rate=0.1, learning_rate=0.1, objective="elbo")


@pytest.fixture
def data() -> tuple[Tensor, Tensor]:
    g = G().manual_seed(0)
    X = torch.randn(60, 2, generator=g, dtype=torch.float64)
    return X, torch.sin(X[:, 0]) + 0.1 * torch.randn(60, generator=g, dtype=torch.float64)


def kernel(prior: bool = True) -> actgp.ArcCosine:
    own = actgp.ArcCosine(2)
    if prior:
        own.register_prior("lengthscale_prior", NormalPrior(5.0, 0.01), "lengthscale")
    return own


def features() -> actgp.ActivatedFeatures:
    return actgp.ActivatedFeatures(2, 12, generator=G().manual_seed(1))


MODELS: dict[str, Callable[[Tensor, Tensor, Kernel], torch.nn.Module]] = {
    "GPR": actgp.GPR,
    "SGPR": lambda X, y, k: actgp.SGPR(X, y, k, features()),
    "SVGP": lambda X, y, k: actgp.SVGP(k, features(), GaussianLikelihood()).double(),
    "DeepGP": lambda X, y, k: actgp.DeepGP(
        [actgp.GPLayer(k, features(), 2, "identity"), actgp.GPLayer(kernel(False), features())], GaussianLikelihood()
    ).double(),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_narrow_prior_decides_where_it_is_registered(name: str, data: tuple[Tensor, Tensor]) -> None:
    X, y = data
    found = {}
    for prior in (True, False):
        own = kernel(prior)
        model = MODELS[name](X, y, own)
        given = () if name in ("GPR", "SGPR") else (X, y, RECIPE)
        actgp.fit(model, *given, generator=G().manual_seed(0), progress=False)
        found[prior] = own.lengthscale.detach()
    torch.testing.assert_close(found[True], torch.full_like(found[True], 5.0), rtol=0, atol=0.1)
    assert (found[False] - 5.0).abs().min() > 0.5


def test_exact_gps_agree_with_gpytorch_on_the_posterior_mode(data: tuple[Tensor, Tensor]) -> None:
    X, y = data
    own = ScaleKernel(
        RBFKernel(ard_num_dims=2, lengthscale_prior=GammaPrior(3.0, 6.0)), outputscale_prior=GammaPrior(2.0, 0.15)
    )
    model = actgp.GPR(X, y, own, GaussianLikelihood(noise_prior=GammaPrior(1.1, 0.05)))
    result = actgp.fit(model, progress=False)
    # gpytorch's own objective, evidence and priors divided by N, has its top here, and our value is N times its.
    model.train()
    mll = ExactMarginalLogLikelihood(model.likelihood, model)
    value = mll(model(*model.train_inputs), model.train_targets)
    assert result.objectives[-1] == pytest.approx(60 * value.item(), rel=1e-6)
    gradients = torch.autograd.grad(value, [p for p in model.parameters() if p.requires_grad])
    assert max(g.abs().max().item() for g in gradients) < 1e-4


@pytest.mark.parametrize("likelihood", [GaussianLikelihood(), BernoulliLikelihood()], ids=["Gaussian", "Bernoulli"])
def test_objectives_have_their_share_of_the_prior(
    likelihood: GaussianLikelihood | BernoulliLikelihood, data: tuple[Tensor, Tensor], dtype: torch.dtype
) -> None:
    X, y = (values.to(dtype) for values in data)
    y = (y > 0).to(dtype) if isinstance(likelihood, BernoulliLikelihood) else y
    y = y[:, None]
    plain = actgp.SVGP(kernel(False), features(), likelihood).to(dtype)
    prior = actgp.SVGP(kernel(), features(), likelihood).to(dtype)
    expected = NormalPrior(5.0, 0.01).log_prob(torch.ones(2, dtype=torch.float64)).sum().item()
    assert log_prior(plain).item() == 0.0
    assert log_prior(prior).item() == pytest.approx(expected, rel=1e-5)
    for evaluate in (
        lambda m: network_objective(m, X, y, prior_share(m, 200)),
        lambda m: posterior_objective(m, X, y, 200, RECIPE, 1.0, G().manual_seed(0), prior_share(m, 200)),
    ):
        difference = evaluate(prior).objective - evaluate(plain).objective
        assert difference.item() == pytest.approx(expected / 200, rel=1e-4)
        assert evaluate(prior).loss.dtype == dtype


def test_the_squared_error_has_the_slope_of_the_posterior(data: tuple[Tensor, Tensor]) -> None:
    # ∂/∂θ of N (−½ log e) + log p, times −2e / N, is that of the loss.
    X, y = data
    model = actgp.SVGP(kernel(), features(), GaussianLikelihood()).double()
    with torch.no_grad():
        model.layer.q.raw_mean.normal_(generator=G().manual_seed(3))
    parameter = model.layer.kernel.raw_lengthscale
    (found,) = torch.autograd.grad(network_objective(model, X, y[:, None], prior_share(model, 60)).loss, parameter)
    error = (model.mean(X) - y).square().mean()
    posterior = -30 * error.log() + log_prior(model)
    (slope,) = torch.autograd.grad(posterior, parameter)
    torch.testing.assert_close(found, -2 * error.detach() / 60 * slope)


def test_a_part_that_two_layers_share_counts_once() -> None:
    shared = kernel()
    layers = [actgp.GPLayer(shared, features(), 2), actgp.GPLayer(shared, features())]
    model = actgp.DeepGP(layers, GaussianLikelihood())
    one = actgp.SVGP(shared, features(), GaussianLikelihood())
    assert log_prior(model) == log_prior(one)
    same = NormalPrior(0.0, 1.0)  # one prior, registered twice, counts twice
    own = actgp.ArcCosine(2)
    own.register_prior("lengthscale_prior", same, "lengthscale")
    own.register_prior("variance_prior", same, "variance")
    assert log_prior(own).item() == pytest.approx(3 * same.log_prob(torch.tensor(1.0)).item(), rel=1e-6)


def test_priors_have_a_say_in_what_held_out_rows_choose(data: tuple[Tensor, Tensor]) -> None:
    X, y = data
    model = actgp.SVGP(actgp.ArcCosine(2), features(), GaussianLikelihood()).double()
    wild = choose_factors(model, X, y[:, None])
    noise = model.likelihood.noise.item()
    model.likelihood.noise_covar.register_prior("noise_prior", NormalPrior(noise, 1e-4), "noise")
    model.double()
    calm = choose_factors(model, X, y[:, None])
    assert wild is not None and calm is not None
    assert wild.noise < 0.5
    assert calm.noise == pytest.approx(1.0, abs=1e-2)
    labels = (y > 0).double()[:, None]
    labels[::2] = 1 - labels[::2]  # half of them wrong, so that a sure model is to be made less sure
    classifier = actgp.SVGP(actgp.ArcCosine(2), features(), BernoulliLikelihood()).double()
    with torch.no_grad():
        classifier.layer.q.raw_mean.normal_(0.0, 3.0, generator=G().manual_seed(0))
    calibrate_temperature(classifier, X, labels)
    cooled = classifier.layer.kernel.variance.item()
    assert cooled < 0.5
    classifier.layer.kernel.variance = 1.0
    classifier.layer.kernel.register_prior("variance_prior", NormalPrior(1.0, 1e-4), "variance")
    calibrate_temperature(classifier.double(), X, labels)
    assert classifier.layer.kernel.variance.item() == pytest.approx(1.0, abs=1e-2)


def test_priors_on_outliers_and_slopes_are_heard(data: tuple[Tensor, Tensor]) -> None:
    X, y = data
    likelihood = actgp.ContaminatedGaussianLikelihood(input_dim=2)
    likelihood.register_prior("outlier_prior", LogNormalPrior(0.0, 0.01), "outlier_noise")
    likelihood.register_prior("slopes_prior", NormalPrior(0.3, 0.001), lambda m: m.slopes, None)
    with torch.no_grad():
        likelihood.outlier_noise, likelihood.slopes[:] = 1.1, 0.29
    model = actgp.SVGP(actgp.ArcCosine(2), features(), likelihood).double()
    actgp.fit(model, X, y, RECIPE, generator=G().manual_seed(0), progress=False)
    assert likelihood.outlier_noise.item() == pytest.approx(1.0, abs=0.05)
    torch.testing.assert_close(likelihood.slopes, torch.full_like(likelihood.slopes, 0.3), rtol=0, atol=0.01)


TEXT = r"density at the parameter's value, got lengthscale_prior, a UniformPrior, at \[.*\]; set the parameter, and reg"


@pytest.mark.parametrize("name", ["GPR", "SVGP"])
@pytest.mark.parametrize("validate", [True, False])
def test_a_start_outside_the_support_of_a_prior_is_refused(
    validate: bool, name: str, data: tuple[Tensor, Tensor]
) -> None:
    own = actgp.ArcCosine(2)
    own.register_prior("lengthscale_prior", UniformPrior(2.0, 3.0, validate_args=validate), "lengthscale")
    assert log_prior(own).item() == -torch.inf
    model = MODELS[name](*data, own)
    before = [p.clone() for p in model.parameters()]
    with pytest.raises(ValueError, match=TEXT):
        actgp.fit(model, *(() if name == "GPR" else (*data, RECIPE)))
    assert all(torch.equal(p, then) for p, then in zip(model.parameters(), before, strict=True))


def test_training_that_leaves_the_support_names_the_prior(data: tuple[Tensor, Tensor]) -> None:
    own = actgp.ArcCosine(2)
    own.register_prior("lengthscale_prior", UniformPrior(0.999, 1.001), "lengthscale")
    model = actgp.SVGP(own, features(), GaussianLikelihood()).double()
    with pytest.raises(ValueError, match=TEXT):
        actgp.fit(model, *data, RECIPE, generator=G().manual_seed(0), progress=False)


def test_scales_outside_a_support_are_not_chosen(data: tuple[Tensor, Tensor]) -> None:
    # The warm start tries variances of 0.1 and 10, and held-out rows others.
    own = actgp.ArcCosine(2)
    own.register_prior("variance_prior", UniformPrior(0.5, 1.5), "variance")
    model = actgp.SVGP(own, features(), GaussianLikelihood()).double()
    recipe = actgp.Recipe(network_steps=5, num_steps=5)
    actgp.fit(model, *data, recipe, generator=G().manual_seed(0), progress=False)
    assert 0.5 <= own.variance.item() <= 1.5


def test_a_checkpoint_of_another_prior_is_refused(data: tuple[Tensor, Tensor], tmp_path: Path) -> None:
    X, y = data

    def fitted(scale: float) -> None:
        own = actgp.ArcCosine(2)
        own.register_prior("lengthscale_prior", NormalPrior(5.0, scale), "lengthscale")
        model = actgp.SVGP(own, features(), GaussianLikelihood()).double()
        recipe = actgp.Recipe(network_steps=2, num_steps=2)
        actgp.fit(model, X, y, recipe, checkpoint=tmp_path / "run", generator=G().manual_seed(0), progress=False)

    fitted(0.5)
    fitted(0.5)  # taken up
    with pytest.raises(ValueError, match="must belong to this run, got .* of a run with another prior; use the same"):
        fitted(0.01)
