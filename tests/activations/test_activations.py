import math

import mpmath
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

import actgp

TORCH = {
    "relu": torch.relu,
    "softplus": torch.nn.Softplus(beta=1.0),
    "swish": torch.nn.SiLU(),
    "silu": torch.nn.SiLU(),
    "gelu": torch.nn.GELU(),
    "tanh": torch.tanh,
}
SHARP = [actgp.Softplus, actgp.Swish, actgp.GELU, actgp.Tanh]


@pytest.mark.parametrize("name", TORCH)
def test_names_are_torchs_functions(name: str, dtype: torch.dtype, tolerance: dict[str, float]) -> None:
    t = torch.linspace(-1, 1, 21, dtype=dtype)
    torch.testing.assert_close(actgp.activation(name)(t), TORCH[name](t), **tolerance)
    torch.testing.assert_close(actgp.activation(name.upper())(t), TORCH[name](t), **tolerance)


@given(beta=st.floats(0.2, 8.0), dimension=st.integers(2, 12), which=st.sampled_from(SHARP))
def test_the_series_is_the_function(
    beta: float, dimension: int, which: type[actgp.activations.SharpActivation]
) -> None:
    activation = which(beta)
    t = torch.linspace(-0.9, 0.9, 50, dtype=torch.float64)
    errors = [
        (actgp.zonal_series(t, activation.energies(dimension, levels), dimension) - activation(t)).abs().max().item()
        for levels in (8, 64)
    ]
    assert errors[1] < 1e-4 * activation(t).abs().max().item()
    assert errors[1] <= errors[0] + 1e-14


def test_softplus_tends_to_relu() -> None:
    relu = actgp.ReLU().energies(5, 10)
    gaps = [(actgp.Softplus(beta).energies(5, 10) - relu).abs().max().item() for beta in (10.0, 100.0, 1000.0)]
    assert gaps[0] > 10 * gaps[1] > 100 * gaps[2]


@pytest.mark.parametrize("which", SHARP)
def test_learnable_sharpness_agrees_with_fixed(which: type[actgp.activations.SharpActivation]) -> None:
    for beta in (0.2, 1.0, 4.0):
        learnable = which(beta, learnable=True).double()
        fixed = which(learnable.beta.item())
        torch.testing.assert_close(learnable.energies(6, 20), fixed.energies(6, 20), rtol=1e-7, atol=0)


def test_learnable_sharpness_has_the_right_gradient() -> None:
    # ∂a_n/∂β is the n-th energy of ∂σ/∂β = t/β · sigmoid(βt) − softplus(βt)/β².
    def exact(t: mpmath.mpf) -> mpmath.mpf:
        return t / beta / (1 + mpmath.exp(-beta * t)) - mpmath.log1p(mpmath.exp(beta * t)) / beta**2

    activation = actgp.Softplus(2.0, learnable=True).double()
    beta = activation.beta.item()
    derivative = actgp.CustomActivation(
        lambda t: t / beta * torch.sigmoid(beta * t) - torch.nn.functional.softplus(beta * t) / beta**2, exact
    ).energies(6, 12)
    for level in (0, 2, 4, 10):
        (gradient,) = torch.autograd.grad(activation.energies(6, 12)[level], activation.raw_beta)
        (scale,) = torch.autograd.grad(activation.beta, activation.raw_beta)
        assert (gradient / scale).item() == pytest.approx(derivative[level].item(), rel=1e-6)


def test_sharpness_is_a_parameter_only_if_learnable(dtype: torch.dtype) -> None:
    assert not list(actgp.Softplus(3.0).parameters())
    learnable = actgp.Softplus(3.0, learnable=True).to(dtype)
    assert [p.dtype for p in learnable.parameters()] == [dtype]
    assert learnable.beta.item() == pytest.approx(3.0, rel=1e-5)
    learnable.energies(4, 6).sum().backward()
    assert learnable.raw_beta.grad is not None
    assert learnable.raw_beta.grad.abs() > 0


def test_sharpness_stays_in_its_range() -> None:
    activation = actgp.Softplus(1.0, learnable=True).double()
    with torch.no_grad():
        activation.raw_beta.fill_(50.0)
    assert activation.beta.item() <= 10.0
    assert torch.isfinite(activation.energies(4, 10)).all()


def test_activations_survive_a_state_dict() -> None:
    saved = actgp.Softplus(2.5).state_dict()
    other = actgp.Softplus(1.0)
    other.load_state_dict(saved)
    assert torch.equal(other.energies(4, 8), actgp.Softplus(2.5).energies(4, 8))
    saved = actgp.ActivatedFeatures(3, 5, actgp.Softplus(2.5)).state_dict()
    features, kernel = actgp.ActivatedFeatures(3, 5, actgp.Softplus(1.0)), actgp.ArcCosine(3)
    features.load_state_dict(saved)
    assert torch.equal(features.match(kernel).activation_energies, actgp.Softplus(2.5).energies(4, 20))


def test_function_in_double_precision_agrees_with_the_exact_one_where_it_can() -> None:
    exact = actgp.CustomActivation(torch.sin, mpmath.sin)
    double = actgp.CustomActivation(torch.sin)
    torch.testing.assert_close(double.energies(4, 8), exact.energies(4, 8), rtol=1e-9, atol=1e-12)
    # In high dimension the upper levels drown in round-off: they are zero rather than noise.
    high = double.energies(1025, 20)
    assert high[1].item() == pytest.approx(exact.energies(1025, 20)[1].item(), rel=1e-12)
    assert torch.equal(high[10:], torch.zeros(10, dtype=torch.float64))


@pytest.mark.parametrize("scale", [1e-13, 3000.0])
def test_the_noise_floor_follows_the_size_of_the_function(scale: float) -> None:
    double = actgp.CustomActivation(lambda t: scale * torch.nn.functional.softplus(t))
    expected = scale * actgp.Softplus(1.0).energies(4, 8)
    torch.testing.assert_close(double.energies(4, 8), expected, rtol=1e-8, atol=1e-12 * scale)


def test_gradient_of_a_custom_activation_is_torchs() -> None:
    t = torch.linspace(-0.9, 0.9, 5, dtype=torch.float64, requires_grad=True)
    assert gradcheck(actgp.CustomActivation(torch.sin), (t,))


def test_unknown_and_wrong_activations_are_refused() -> None:
    with pytest.raises(ValueError, match="activation must be one of .*'softplus'.*, got 'softpluss'; choose one"):
        actgp.activation("softpluss")
    with pytest.raises(
        TypeError, match="must be a name or an actgp activation, got ReLU; pass one of .*CustomActivation"
    ):
        actgp.activation(torch.nn.ReLU())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("beta", "error", "text"),
    [
        (0.0, ValueError, "beta must be positive and finite, got 0.0"),
        (-1.0, ValueError, "beta must be positive and finite, got -1.0"),
        (float("nan"), ValueError, "beta must be positive and finite, got nan"),
        ("sharp", TypeError, "beta must be a number, got 'sharp' of type str"),
    ],
)
def test_bad_sharpness_is_refused(beta: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        actgp.Softplus(beta)  # type: ignore[arg-type]


def test_learnable_sharpness_must_start_in_range() -> None:
    with pytest.raises(
        ValueError, match="a learnable beta must start between 0.1 and 10.0, got 30.0; start nearer to 1"
    ):
        actgp.Softplus(30.0, learnable=True)


def test_bad_functions_are_refused() -> None:
    with pytest.raises(TypeError, match="a shape function must be callable, got str; pass e.g. torch.sin"):
        actgp.CustomActivation("sin")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="(?s)finite values of the same shape, got .* write it elementwise"):
        actgp.CustomActivation(torch.log)
    with pytest.raises(ValueError, match="finite values of the same shape"):
        actgp.CustomActivation(torch.sum)
    with pytest.raises(ValueError, match="exact must be the same function as function, got .* correct one of them"):
        actgp.CustomActivation(torch.sin, mpmath.cos)
    with pytest.raises(ValueError, match="cannot tell 1/3 from .* use mpmath's functions instead of math's"):
        actgp.CustomActivation(torch.sin, lambda t: mpmath.mpf(math.sin(t)))


def test_levels_beyond_what_is_known_for_every_sharpness_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actgp.activations.sharp.INTERPOLATION_POINTS", 3)  # of 32, which take a minute
    learnable = actgp.GELU(1.0, learnable=True)
    with pytest.raises(
        ValueError, match=r"with a learnable beta, num_levels must be at most \d+ in dimension 3, got 90"
    ):
        learnable.energies(3, 90)
