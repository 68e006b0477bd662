"""Activations that a truncation makes poor functions in many dimensions are named, with a remedy that works."""

import re
import warnings
from dataclasses import replace

import mpmath
import pytest
import torch
from gpytorch.likelihoods import GaussianLikelihood
from torch import nn

import actgp
from actgp.features.mismatch import overshoots

TEXT = r"cut after 20 levels in 128 dimensions, is ([\d.e+]+) times too large at t = ±1.*; use num_levels=(\d+), or a"

pytestmark = pytest.mark.usefixtures("small_conversions")


def complaint(messages: list[str]) -> re.Match[str] | None:
    return next((found for message in messages if (found := re.search(TEXT, message))), None)


def built(activation: str | actgp.Activation, num_levels: int) -> tuple[actgp.DeepGP, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        features = actgp.ActivatedFeatures(128, 8, activation, num_levels)
        model = actgp.SVGP(actgp.ArcCosine(128), features, GaussianLikelihood())
    return model, [str(warning.message) for warning in caught]


def test_the_number_is_that_of_the_function_and_the_remedy_cures_it() -> None:
    model, messages = built("relu", 20)
    found = complaint(messages)
    assert found is not None
    energies = actgp.ReLU().energies(129, 20)
    ends = actgp.zonal_series(torch.tensor([-1.0, 1.0], dtype=torch.float64), energies, 129)  # of a function with max 1
    assert float(found[1]) == pytest.approx(ends.abs().max().item(), rel=0.05)
    remedied, messages = built("relu", int(found[2]))
    assert not any("times too large" in message for message in messages)
    X = torch.randn(50, 128, generator=torch.Generator().manual_seed(0))
    assert complaint(list(actgp.diagnose(model, X).layers[0].advice)) is not None
    unexplained = [actgp.diagnose(own, X).layers[0].unexplained for own in (model, remedied)]
    assert unexplained[0] > 0.999
    assert unexplained[1] < unexplained[0]
    assert re.search(r"truncation error of the activation +\d\.\de\+\d\d ×", str(actgp.diagnose(model, X)))


@pytest.mark.parametrize("activation", ["softplus", "swish", "gelu", actgp.Softplus(3.0)], ids=str)
def test_smooth_activations_are_not_accused(activation: str | actgp.Activation) -> None:
    _, messages = built(activation, 20)
    assert not any("times too large" in message for message in messages)


@pytest.mark.parametrize("D", [5, 20, 30])
@pytest.mark.parametrize("num_levels", [8, 20])
def test_bumps_which_are_small_at_the_ends_can_be_used(D: int, num_levels: int) -> None:
    bump = actgp.CustomActivation(lambda t: torch.exp(-8 * t**2), lambda t: mpmath.exp(-8 * t**2))
    features = actgp.ActivatedFeatures(D, 8, bump, num_levels)
    overshoot = overshoots(features.activation, features.dimension, num_levels)[-1].item()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        actgp.GPLayer(actgp.MatchedKernel(D, bump, num_levels), features)
    said = any("times too large" in str(warning.message) for warning in caught)
    assert said == (overshoot > 10)
    t = torch.tensor([-1.0, 1.0], dtype=torch.float64)
    ends = actgp.zonal_series(t, bump.energies(D + 1, num_levels), D + 1)
    assert overshoot == pytest.approx(ends.abs().max().item())  # its largest value is one


def test_spikes_that_no_grid_sees_can_be_used() -> None:
    spike = actgp.CustomActivation(
        lambda t: torch.exp(-1e4 * (t - 0.313) ** 2), lambda t: mpmath.exp(-1e4 * (t - mpmath.mpf("0.313")) ** 2)
    )
    assert (overshoots(spike, 4, 1) <= 1).all()


def test_sharp_ones_are() -> None:
    _, messages = built(actgp.Softplus(10.0), 20)
    assert complaint(messages) is not None


@pytest.mark.filterwarnings("ignore:the features' RKHS norm:actgp.SpectralMismatchWarning")
def test_hybrids_say_so_and_take_the_remedy() -> None:
    backbone, X = nn.Identity(), torch.randn(40, 128, generator=torch.Generator().manual_seed(0))
    with pytest.warns(actgp.SpectralMismatchWarning, match=TEXT):
        actgp.hybrid(backbone, X, 3, num_layers=1, num_inducing=8, layers=actgp.Layers(activation="relu"))
    cured = actgp.Layers(activation="relu", num_levels=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error", actgp.SpectralMismatchWarning)
        actgp.hybrid(backbone, X, 3, num_layers=1, num_inducing=8, layers=cured)
    # Without points beside the units, what is beyond four levels is lost, and more levels are no remedy.
    with pytest.warns(actgp.SpectralMismatchWarning, match="2.2% of the prior .*; use inducing points beside the"):
        actgp.hybrid(backbone, X, 3, num_layers=1, num_inducing=8, layers=replace(cured, num_points=0))


def test_conversions_say_so() -> None:
    g = torch.Generator().manual_seed(0)
    network = nn.Sequential(nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 1))
    X = torch.randn(80, 64, generator=g)
    _, report = actgp.convert_weights(network, X, num_inducing=16, tolerance=float("inf"))
    (layer,) = report.layers
    assert layer.num_levels == 40
    assert layer.overshoot > 1e6
    assert re.search(
        r"! the activation of layer 1, cut after 40 levels, is [\d.e+]+ times too large at t = ±1", str(report)
    )


@pytest.mark.filterwarnings("ignore::actgp.SpectralMismatchWarning")
@pytest.mark.parametrize("num_points", [0, 4])
def test_gradients_stay_finite_where_norms_are_beyond_float32(num_points: int) -> None:
    g = torch.Generator().manual_seed(0)
    model = actgp.deep_gp(
        800,
        num_layers=1,
        num_inducing=8,
        layers=actgp.Layers(num_points=num_points, num_levels=40, activation="relu"),
        likelihood=GaussianLikelihood(),
        generator=g,
    )
    X, y = torch.randn(20, 800, generator=g), torch.randn(20, generator=g)
    (-model.elbo(X, y, 20)).backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())
