"""Every number that the library computes, in both precisions, against an independent evaluation, over the whole range.

Dimensions D from 1 to 2,000, up to 64 levels, every activation and kernel. References are computed with 60 digits by
mpmath, or in float64 by another formula: the recurrence from level to level instead of Clenshaw's or powers.
"""

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from math import sqrt

import mpmath
import numpy as np
import pytest
import torch
from every_kernel import KERNELS
from gpytorch.likelihoods import GaussianLikelihood
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from numpy.polynomial import chebyshev
from torch import Tensor

import actgp
from actgp.features import through_units, whitening
from actgp.features.activated import LARGEST_ENERGY
from actgp.layers.variational import conditional_marginals, scales_of
from actgp.sphere import polynomial as make_polynomial
from actgp.sphere.polynomial import Polynomial, connection, derivative_energies, norm

CPU = torch.device("cpu")
DIGITS = 60

dimensions = st.one_of(st.integers(1, 40), st.integers(41, 2_000))
sharpnesses = st.sampled_from([0.25, 1.0, 3.0, 8.0])  # exact in float32
activations = st.one_of(
    st.just(actgp.ReLU()),
    st.builds(
        lambda kind, beta: kind(beta),
        st.sampled_from([actgp.Softplus, actgp.Swish, actgp.GELU, actgp.Tanh]),
        sharpnesses,
    ),
)
levels = st.integers(1, 64)
dtypes = st.sampled_from([torch.float32, torch.float64])
seeds = st.integers(0, 2**16)
examples = partial(settings, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])


def points(D: int, seed: int, number: int = 6) -> Tensor:
    """t as random directions have it, and t from all of [−1, 1]; exact in float32."""
    g = torch.Generator().manual_seed(seed)
    typical = torch.nn.functional.normalize(torch.randn(number, D + 1, generator=g), dim=-1)[:, 0]
    anywhere = torch.rand(number, generator=g) * 2 - 1
    return torch.cat([typical, anywhere, torch.tensor([-1.0, 0.0, 1.0])])


def exact_series(energies: Sequence[float], d: int, t: Sequence[float]) -> tuple[list[float], list[float]]:
    """Σ e_n P_n(t) and Σ |e_n P_n(t)|, with 60 digits."""
    values, sizes = [], []
    with mpmath.workdps(DIGITS):
        for t_i in map(mpmath.mpf, t):
            before, P, value, size = mpmath.mpf(0), mpmath.mpf(1), mpmath.mpf(0), mpmath.mpf(0)
            for n, e in enumerate(energies):
                value, size = value + mpmath.mpf(e) * P, size + abs(mpmath.mpf(e) * P)
                A, B = ((2 * n + d - 2), n) if n else (1, 0)
                before, P = P, (A * t_i * P - B * before) / ((n + d - 2) if n else 1)
            values.append(value)
            sizes.append(float(size))
    return values, sizes


def check_series(energies: Tensor, d: int, t: Tensor, found: Sequence[Tensor]) -> None:
    """Value, slope and curvature are right to some dozens of units in the last place of what is summed."""
    eps = torch.finfo(found[0].dtype).eps
    e, dimension = tuple(energies.tolist()), d
    for values in found:
        slopes = derivative_energies(e, dimension)
        expected, sizes = exact_series(e, dimension, t.tolist())
        floor = max(norm(e, dimension), norm(*slopes))
        for value, exact, size in zip(values.tolist(), expected, sizes, strict=True):
            assert abs(float(mpmath.mpf(value) - exact)) <= 64 * eps * max(size, floor)
        e, dimension = slopes


def derivatives(t: Tensor, energies: Tensor, d: int) -> list[Tensor]:
    t = t.clone().requires_grad_()
    value = actgp.zonal_series(t, energies, d)
    (slope,) = torch.autograd.grad(value.sum(), t, create_graph=True)
    if not slope.requires_grad:  # the series of a constant
        return [value, slope, torch.zeros_like(t)]
    (curvature,) = torch.autograd.grad(slope.sum(), t)
    return [value, slope, curvature]


@examples(max_examples=60)
@given(D=dimensions, activation=activations, num_levels=levels, dtype=dtypes, seed=seeds)
def test_series_of_activations(
    D: int, activation: actgp.Activation, num_levels: int, dtype: torch.dtype, seed: int
) -> None:
    energies = activation.energies(D + 1, num_levels)
    assume(energies.abs().max() <= LARGEST_ENERGY)
    t = points(D, seed)
    check_series(energies, D + 1, t, derivatives(t.to(dtype), energies, D + 1))


@given(D=dimensions, num_levels=levels, dtype=dtypes, seed=seeds, learnt=st.booleans())
def test_series_of_any_energies(D: int, num_levels: int, dtype: torch.dtype, seed: int, learnt: bool) -> None:
    g = torch.Generator().manual_seed(seed)
    energies = torch.randn(num_levels, dtype=torch.float64, generator=g) * 10 ** torch.randint(-6, 7, (), generator=g)
    t = points(D, seed)
    check_series(energies, D + 1, t, derivatives(t.to(dtype), energies.requires_grad_(learnt), D + 1))


@pytest.mark.parametrize("D", [32, 64, 128, 800])
def test_many_levels_of_relu(D: int, dtype: torch.dtype) -> None:
    # Once wrong by 0.6, 5e3, 2e8 and 2e22 of its size.
    energies = actgp.ReLU().energies(D + 1, 40)
    t = points(D, seed=0)
    check_series(energies, D + 1, t, derivatives(t.to(dtype), energies, D + 1))


def chebyshev_sum(self: Polynomial, t: Tensor) -> Tensor:
    """The same function, summed as a Chebyshev series, in the precision of t."""
    c = np.array(self.energies) @ connection(self.dimension, len(self.energies))
    kind = np.float32 if t.dtype == torch.float32 else np.float64
    return torch.from_numpy(chebyshev.chebval(t.detach().numpy(), c.astype(kind)))


@pytest.mark.parametrize("D", [32, 128])
def test_these_tests_notice_a_sum_of_chebyshev_polynomials(D: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Polynomial, "__call__", chebyshev_sum)
    energies, t = actgp.ReLU().energies(D + 1, 40), points(D, seed=0)
    f = make_polynomial(tuple(energies.tolist()), D + 1, torch.float32, CPU)
    with pytest.raises(AssertionError):
        check_series(energies, D + 1, t, [f(t)])


def test_these_tests_notice_powers_where_they_are_not_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("actgp.sphere.polynomial"), "AMPLIFICATION", float("inf"))
    energies, t = tuple(actgp.ReLU().energies(10, 41).tolist()), points(9, seed=0)
    f = make_polynomial(energies, 10, torch.float32, CPU)
    make_polynomial.cache_clear()
    assert f.powers is not None
    with pytest.raises(AssertionError):
        check_series(torch.tensor(energies, dtype=torch.float64), 10, t, [f(t)])


def build(
    D: int, activation: actgp.Activation, num_levels: int, seed: int, matched: bool, num_points: int = 0
) -> actgp.GPLayer:
    """A layer in float64 whose parameters are exact in float32, 24 inducing variables and 2 outputs."""
    energies = activation.energies(D + 1, num_levels)
    assume(energies.abs().max() <= LARGEST_ENERGY)
    g = torch.Generator().manual_seed(seed)
    kernel = actgp.MatchedKernel(D, activation, num_levels) if matched else actgp.ArcCosine(D)
    features: actgp.ActivatedFeatures | actgp.DecoupledFeatures
    features = actgp.ActivatedFeatures(D, 24 - num_points, activation, num_levels, generator=g)
    assume(features.match(kernel).shared.any())
    if num_points:
        features = actgp.DecoupledFeatures(features, actgp.InducingPoints(torch.randn(num_points, D, generator=g)))
    layer = actgp.GPLayer(kernel, features, 2)
    with torch.no_grad():
        layer.kernel.raw_lengthscale.normal_(0.0, 0.3, generator=g)
        layer.kernel.raw_variance.normal_(0.0, 0.3, generator=g)
        layer.q.raw_mean.normal_(generator=g)
        layer.q.raw_scale_tril.normal_(0.0, 0.1, generator=g)
    return layer.double()


def rows(D: int, seed: int) -> Tensor:
    return torch.randn(7, D, generator=torch.Generator().manual_seed(seed + 1))


quiet = pytest.mark.filterwarnings("ignore::actgp.SpectralMismatchWarning")


@quiet
@examples(max_examples=40)
@given(D=dimensions, activation=activations, num_levels=st.integers(2, 64), seed=seeds, matched=st.booleans())
def test_Kuf_and_Kuu(D: int, activation: actgp.Activation, num_levels: int, seed: int, matched: bool) -> None:
    layer, X = build(D, activation, num_levels, seed, matched), rows(D, seed)
    kernel, features = layer.kernel, layer.features
    x = torch.cat([X.double() / kernel.lengthscale.detach(), torch.ones(7, 1, dtype=torch.float64)], dim=1)
    W = torch.nn.functional.normalize(features.weights.detach(), dim=1)
    radius = x.norm(dim=1)
    match = features.match(kernel)
    basis = actgp.normalised_gegenbauer(W @ (x / radius[:, None]).T, D + 1, num_levels)  # [M, N, L]
    expected = radius * (basis @ match.shared)
    slopes = derivative_energies(match.shared.tolist(), D + 1)
    size = (basis.abs() @ match.shared.abs()).max().item()  # what may cancel
    steepness = float(np.abs(np.array(slopes[0])) @ np.abs(_basis(W @ (x / radius[:, None]).T, *slopes)).max((0, 1)))
    for dtype in (torch.float32, torch.float64):
        features.to(dtype)
        found = features.Kuf(kernel.to(dtype), X.to(dtype)).detach().double()
        bound = torch.finfo(dtype).eps * (64 * size + 8 * steepness)
        assert ((found - expected) / radius).abs().max().item() <= bound
    features.double()
    Kuu = features.Kuu(kernel.double()).detach()
    exact, sizes = exact_series(match.norms.tolist(), D + 1, (W[:3] @ W.T).reshape(-1).tolist())
    wanted = torch.tensor([float(value) for value in exact], dtype=torch.float64).view(3, -1) / kernel.variance.detach()
    torch.testing.assert_close(Kuu[:3], wanted, rtol=0, atol=1e-12 * max(sizes) / kernel.variance.item() * num_levels)


def _basis(t: Tensor, energies: tuple[float, ...], dimension: int) -> np.ndarray:
    return actgp.normalised_gegenbauer(t, dimension, len(energies)).numpy()


@pytest.mark.parametrize("name", KERNELS)
@given(D=dimensions, seed=seeds)
def test_kernels_in_float32(name: str, D: int, seed: int) -> None:
    kernel, X = KERNELS[name](D), rows(D, seed)
    X[3] = X[4] + 1e-3 * X[5]  # close together
    found = kernel(X).to_dense().detach().double()
    kernel.double()
    exact = kernel(X.double()).to_dense().detach()
    scale = exact.diagonal().sqrt()[:, None] * exact.diagonal().sqrt()
    t = torch.nn.functional.normalize(torch.cat([X.double(), torch.ones(7, 1).double()], 1), dim=1)
    t = (t @ t.T).fill_diagonal_(1.0)
    eps = torch.finfo(torch.float32).eps
    # What rounding t does to a shape that is steep at t = 1 cannot be undone.
    moved = [(kernel.shape((t + d).clamp(-1, 1)) - kernel.shape(t)).detach().abs() for d in (-8 * eps, 8 * eps)]
    assert ((found - exact).abs() <= scale * (32 * eps + torch.maximum(*moved))).all()


@quiet
@examples(max_examples=40)
@given(
    D=dimensions,
    activation=activations,
    num_levels=st.integers(2, 64),
    seed=seeds,
    matched=st.booleans(),
    num_points=st.sampled_from([0, 8]),
)
def test_layers_in_float32(
    D: int, activation: actgp.Activation, num_levels: int, seed: int, matched: bool, num_points: int
) -> None:
    layer, X = build(D, activation, num_levels, seed, matched, num_points), rows(D, seed)
    results = {}
    for dtype in (torch.float64, torch.float32):
        own = layer.to(dtype)
        trained = own(X.to(dtype))
        with torch.no_grad():
            plain = own(X.to(dtype))
            A, unexplained = own.whiten(X.to(dtype)), own.unexplained(X.to(dtype))
        results[dtype] = [value.detach().double() for value in (*trained, *plain, A, unexplained, own.kl()[None])]
        prior = own.kernel(X.to(dtype), diag=True).detach().double().max().item()
    size, m = sqrt(prior), layer.q.mean.detach().norm().item()
    for i, scale in enumerate((size * m, prior, size * m, prior, size, 1.0, m**2)):
        found, expected = results[torch.float32][i], results[torch.float64][i]
        assert torch.isfinite(expected).all()
        torch.testing.assert_close(found, expected, rtol=0, atol=2e-3 * scale, msg=f"result {i}")


@quiet
@examples(max_examples=25)
@given(
    D=st.integers(1, 400),
    activation=activations,
    num_levels=st.integers(2, 40),
    seed=seeds,
    num_points=st.sampled_from([0, 8]),
)
def test_every_fast_path_is_its_plain_form(
    D: int, activation: actgp.Activation, num_levels: int, seed: int, num_points: int
) -> None:
    layer = build(D, activation, num_levels, seed, True, num_points)
    X = rows(D, seed).double().requires_grad_()
    parameters = [p for p in layer.parameters() if p.requires_grad]
    features, kernel = layer.features, layer.kernel

    def gradients(outputs: Sequence[Tensor]) -> list[Tensor]:
        total = sum(
            (value * torch.linspace(0.5, 1.5, value.numel()).double().view_as(value)).sum() for value in outputs
        )
        return list(torch.autograd.grad(total, [X, *parameters], allow_unused=True, materialize_grads=True))

    # Functions with gradients derived by hand, against plain operations from the beginning.
    fused = layer(X)
    R, _, units = whitening(features, kernel)
    A, prior = through_units(X, units, R)
    plain = conditional_marginals(A, prior, layer.q.mean, *scales_of(layer.q.raw_scale_tril, layer.q.blocks))
    scale = prior.detach().max().item()
    for found, expected in zip(fused, plain, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6 * scale)
    with torch.no_grad():
        for found, expected in zip(layer(X), plain, strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6 * scale)
    slopes = gradients(plain)
    size = max(expected.abs().max().item() for expected in slopes)
    for found, expected in zip(gradients(fused), slopes, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3 * size)  # in one dimension Kuu is singular


@quiet
@examples(max_examples=12)
@given(D=st.integers(1, 800), activation=activations, seed=seeds)
def test_deep_models_in_float32(D: int, activation: actgp.Activation, seed: int) -> None:
    assume(activation.energies(D + 1, 20).abs().max() <= LARGEST_ENERGY)
    g = torch.Generator().manual_seed(seed)
    model = actgp.deep_gp(
        D,
        num_layers=2,
        num_inducing=16,
        layers=actgp.Layers(hidden_dim=3, activation=activation),
        likelihood=GaussianLikelihood(),
        generator=g,
    )
    with torch.no_grad():
        for layer in model.gp_layers:
            layer.q.raw_mean.normal_(generator=g)
            layer.q.raw_scale_tril.diagonal(dim1=-2, dim2=-1).fill_(-2.0)
    X, y = rows(D, seed), torch.linspace(-1, 1, 7)
    results = {}
    for dtype in (torch.float64, torch.float32):
        own = model.to(dtype)
        prediction = own.predict(X.to(dtype), num_samples=4)
        results[dtype] = [
            value.detach().double()
            for value in (
                own.mean(X.to(dtype)),
                own.network()(X.to(dtype)),
                prediction.mean,
                prediction.variance,
                prediction.log_prob(y.to(dtype)),
                own.kl(),
            )
        ]
    for found, expected in zip(results[torch.float32], results[torch.float64], strict=True):
        size = expected.abs().max().item()
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-2 * size + 1e-4)


@given(D=dimensions, num_levels=levels, dtype=dtypes, seed=seeds)
def test_polynomials(D: int, num_levels: int, dtype: torch.dtype, seed: int) -> None:
    t = points(D, seed)
    found = actgp.normalised_gegenbauer(t.to(dtype), D + 1, num_levels)[:, -1]
    last = [0.0] * (num_levels - 1) + [1.0]
    expected, _ = exact_series(last, D + 1, t.tolist())
    errors = [abs(float(mpmath.mpf(value) - exact)) for value, exact in zip(found.tolist(), expected, strict=True)]
    assert max(errors) <= 4 * num_levels * torch.finfo(dtype).eps


@given(d=st.integers(2, 6), level=st.integers(0, 5), seed=seeds)
def test_harmonics_in_float32_add_up(d: int, level: int, seed: int) -> None:
    g = torch.Generator().manual_seed(seed)
    x = torch.nn.functional.normalize(torch.randn(8, d, generator=g), dim=-1)
    harmonics = actgp.SphericalHarmonics(d, level + 1)
    own = torch.tensor(harmonics.levels) == level
    phi = harmonics(x)[:, own].double()
    unit = torch.nn.functional.normalize(x.double(), dim=-1)
    expected = actgp.num_harmonics(level, d) * actgp.normalised_gegenbauer(unit @ unit.T, d, level + 1)[..., -1]
    torch.testing.assert_close(phi @ phi.T, expected, rtol=0, atol=2e-5 * actgp.num_harmonics(level, d))


@given(seed=seeds, size=st.floats(-4, 4), spread=st.floats(-4, 4), noise=st.floats(-1.9, 3), outputs=st.integers(1, 2))
def test_predictions_in_float32(seed: int, size: float, spread: float, noise: float, outputs: int) -> None:
    g = torch.Generator().manual_seed(seed)
    shape = (5, 6, outputs)
    mean = 10**size * torch.randn(shape, generator=g)
    variance = 10 ** (2 * spread) * torch.rand(shape, generator=g)
    y = mean.mean(0) + 10**noise * torch.randn(6, outputs, generator=g)
    likelihood = GaussianLikelihood()
    likelihood.noise = 10 ** (2 * noise)
    single = actgp.Prediction(mean, variance, likelihood)
    double = actgp.Prediction(mean.double(), variance.double(), likelihood)  # a copy of the likelihood as it is
    width = double.variance.sqrt().max().item() + mean.abs().max().item()
    eps = torch.finfo(torch.float32).eps
    for found, expected, scale in (
        (single.mean, double.mean, width),
        (single.variance, double.variance, width**2),
        (single.epistemic, double.epistemic, width**2),
        (torch.stack(single.interval()), torch.stack(double.interval()), width),
    ):
        torch.testing.assert_close(found.double(), expected, rtol=0, atol=64 * eps * scale)
    # A density is as sharp as its narrowest component: what rounding the means does to it is allowed for.
    narrowest = (variance.min() + likelihood.noise).sqrt().item()
    z = ((y - mean).abs().amax() / narrowest).item()
    sharpness = z * mean.abs().max().item() / narrowest + z**2 + 10
    found, expected = (
        single.log_prob(y if outputs > 1 else y[:, 0]),
        double.log_prob((y if outputs > 1 else y[:, 0]).double()),
    )
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=64 * eps * sharpness * outputs)


@quiet
@given(D=st.integers(1, 300), seed=seeds)
def test_exact_models_from_float32_data(D: int, seed: int) -> None:
    # The textbook's formulas, in float64.
    X, X_new = rows(D, seed), rows(D, seed + 7)
    y = torch.sin(X[:, 0])
    kernel = actgp.ArcCosine(D)
    features = actgp.ActivatedFeatures(D, 5, generator=torch.Generator().manual_seed(seed))
    exact, sparse = actgp.GPR(X, y, kernel), actgp.SGPR(X, y, actgp.ArcCosine(D), features)
    own, x, x_new, t = kernel.double(), X.double(), X_new.double(), y.double()
    noise = exact.likelihood.noise.double()
    Kff, Ksf, Kss = (k.to_dense().detach() for k in (own(x), own(x_new, x), own(x_new)))
    A = torch.linalg.inv(Kff + noise * torch.eye(7))
    prediction = exact.predict(X_new)
    scale = Kss.diagonal().max().item()
    torch.testing.assert_close(prediction.mean.double(), (Ksf @ A @ t).detach(), rtol=1e-4, atol=1e-4)
    variance = (Kss - Ksf @ A @ Ksf.T).diagonal().detach()
    torch.testing.assert_close(prediction.epistemic.double(), variance, rtol=1e-4, atol=1e-5 * scale)
    Kuf, Kus, Kuu = (k.detach() for k in (features.Kuf(own, x), features.Kuf(own, x_new), features.Kuu(own)))
    Kuu = Kuu + 1e-10 * Kuu.diagonal().mean() * torch.eye(5)  # the library's jitter
    Q = torch.linalg.inv(Kuu + Kuf @ Kuf.T / noise)
    found = sparse.predict(X_new)
    torch.testing.assert_close(found.mean.double(), (Kus.T @ Q @ Kuf @ t / noise).detach(), rtol=1e-3, atol=1e-3)
    variance = Kss.diagonal() - (Kus * (torch.linalg.inv(Kuu) @ Kus)).sum(0) + (Kus * (Q @ Kus)).sum(0)
    torch.testing.assert_close(found.epistemic.double(), variance.detach(), rtol=1e-3, atol=1e-4 * scale)


@quiet
@examples(max_examples=12)
@given(D=st.integers(1, 400), name=st.sampled_from(sorted(KERNELS)), seed=seeds)
def test_drawn_functions_in_float32(D: int, name: str, seed: int) -> None:
    g = torch.Generator().manual_seed(seed)
    layer = actgp.GPLayer(KERNELS[name](D), actgp.InducingPoints(torch.randn(6, D, generator=g)))
    model = actgp.DeepGP([layer], GaussianLikelihood())
    X, values = rows(D, seed), {}
    for dtype in (torch.float32, torch.float64):
        (f,) = model.to(dtype).sample_functions(1, num_features=50, generator=torch.Generator().manual_seed(0))
        values[dtype] = f(X.to(dtype)).double()
    size = layer.kernel(X.double(), diag=True).detach().max().sqrt().item()
    torch.testing.assert_close(values[torch.float32], values[torch.float64], rtol=0, atol=1e-3 * size)
