import warnings

import gpytorch
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import actgp
from actgp.linalg import stable_cholesky

ACTIVATIONS = [actgp.ReLU(), actgp.Softplus(1.0), actgp.Softplus(3.0), actgp.Swish(), actgp.GELU(), actgp.Tanh()]


def kernels(input_dim: int) -> list[actgp.ZonalKernel]:
    return [
        actgp.ArcCosine(input_dim),
        actgp.ArcCosine(input_dim, order=0),
        actgp.ZonalMatern(input_dim, nu=1.5),
        actgp.ZonalRBF(input_dim),
        actgp.MatchedKernel(input_dim, "softplus"),
    ]


@given(
    inputs=st.integers(1, 12),
    levels=st.integers(1, 24),
    activation=st.sampled_from(ACTIVATIONS),
    which=st.integers(0, 4),
    seed=st.integers(0, 1000),
)
def test_the_approximation_never_exceeds_the_prior(
    inputs: int, levels: int, activation: actgp.Activation, which: int, seed: int
) -> None:
    # Kff − Kfu Kuu⁻¹ Kuf is a covariance for every activation, truncation, kernel and dimension.
    g = torch.Generator().manual_seed(seed)
    kernel = kernels(inputs)[which].double()
    kernel.variance = 2.3
    features = actgp.ActivatedFeatures(inputs, 15, activation, levels, generator=g).double()
    X = torch.randn(12, inputs, dtype=torch.float64, generator=g)
    Kuf = features.Kuf(kernel, X)
    Kuu = features.Kuu(kernel)
    if Kuu.diagonal().max() == 0:  # the only level the activation has, the kernel has not
        assert Kuf.abs().max() == 0
        return
    A = torch.linalg.solve_triangular(stable_cholesky(Kuu).L, Kuf, upper=False)
    Kff = kernel(X).to_dense()
    assert torch.linalg.eigvalsh(Kff - A.T @ A).min() > -1e-7 * Kff.diagonal().max()


def test_inner_products_in_the_rkhs_are_those_of_explicit_harmonics(generator: torch.Generator) -> None:
    # Kuu = Σ_nj ĝ_nj ĝ'_nj / λ_n with ĝ_nj = σ_n φ_nj(ŵ), and Kuf = Σ_nj ĝ_nj r φ_nj(x̂): no zonal series involved.
    kernel = actgp.ArcCosine(2).double()
    kernel.variance = 0.7
    features = actgp.ActivatedFeatures(2, 6, actgp.Softplus(3.0), num_levels=7, generator=generator).double()
    harmonics = actgp.SphericalHarmonics(3, 7)
    level = torch.tensor(harmonics.levels)
    sigma = actgp.spectrum(features.activation, 3, 7).eigenvalues[level]
    eigenvalues = 0.7 * actgp.spectrum(kernel, 3, 7).eigenvalues[level]
    present = eigenvalues > 0
    coefficients = (sigma * harmonics(features.directions))[:, present]
    torch.testing.assert_close(features.Kuu(kernel), (coefficients / eigenvalues[present]) @ coefficients.T)
    X = torch.randn(5, 2, dtype=torch.float64, generator=generator)
    radius, direction = kernel.polar(X)
    torch.testing.assert_close(features.Kuf(kernel, X), radius * (coefficients @ harmonics(direction)[:, present].T))


def test_covariances_are_hidden_activations(generator: torch.Generator) -> None:
    # For ReLU on the plane the match is exact in the limit: r max(0, ŵ·x̂) = max(0, ŵ·x̃).
    kernel = actgp.ArcCosine(1).double()
    features = actgp.ActivatedFeatures(1, 4, "relu", num_levels=200, generator=generator).double()
    X = torch.linspace(-2, 2, 40, dtype=torch.float64)[:, None]
    hidden = torch.relu(features.directions @ torch.cat([X, torch.ones_like(X)], dim=-1).T)
    torch.testing.assert_close(features.Kuf(kernel, X), hidden, rtol=0, atol=5e-3)


def test_scale_of_the_weights_does_not_matter(generator: torch.Generator) -> None:
    kernel = actgp.ArcCosine(2)
    features = actgp.ActivatedFeatures(2, 5, generator=generator)
    before = features.Kuu(kernel)
    with torch.no_grad():
        features.weights *= torch.tensor([0.1, 1.0, 2.0, 30.0, 5.0])[:, None]
    torch.testing.assert_close(features.Kuu(kernel), before, rtol=1e-5, atol=1e-6)


def test_levels_the_kernel_lacks_are_dropped_from_both_covariances(generator: torch.Generator) -> None:
    kernel = actgp.ArcCosine(2).double()
    tanh = actgp.ActivatedFeatures(2, 5, "tanh", generator=generator).double()
    X = torch.randn(6, 2, dtype=torch.float64, generator=generator)
    # Of tanh's levels 1, 3, 5, … the arc-cosine has the first: what is left is linear.
    radius, direction = kernel.polar(X)
    slope = actgp.Tanh().energies(3, 2)[1]
    torch.testing.assert_close(tanh.Kuf(kernel, X), slope * radius * (tanh.directions @ direction.T))


def test_inducing_points_are_function_values(dtype: torch.dtype, generator: torch.Generator) -> None:
    Z = torch.randn(4, 2, dtype=dtype, generator=generator)
    X = torch.randn(6, 2, dtype=dtype, generator=generator)
    for kernel in (actgp.ArcCosine(2).to(dtype), gpytorch.kernels.RBFKernel(ard_num_dims=2).to(dtype)):
        features = actgp.InducingPoints(Z)
        torch.testing.assert_close(features.Kuf(kernel, X), kernel(Z, X).to_dense())
        torch.testing.assert_close(features.Kuu(kernel), kernel(Z.double()).to_dense())
        assert features.complaints(kernel) == []


def test_dtypes(dtype: torch.dtype, generator: torch.Generator) -> None:
    features = actgp.ActivatedFeatures(2, 5, generator=generator).to(dtype)
    kernel = actgp.ArcCosine(2).to(dtype)
    assert features.Kuf(kernel, torch.zeros(3, 2, dtype=dtype)).dtype == dtype
    assert features.Kuu(kernel).dtype == torch.float64  # always: it is ill-conditioned


def test_gradients_reach_weights_kernel_and_sharpness(generator: torch.Generator) -> None:
    kernel = actgp.ArcCosine(2)
    features = actgp.ActivatedFeatures(2, 5, actgp.Softplus(2.0, learnable=True), generator=generator)
    X = torch.randn(6, 2, generator=generator)
    (features.Kuf(kernel, X).sum() + features.Kuu(kernel).sum()).backward()
    for parameter in (features.weights, features.activation.raw_beta, kernel.raw_lengthscale, kernel.raw_variance):
        assert parameter.grad.abs().max() > 0


def test_initial_directions_follow_the_generator() -> None:
    def weights(seed: int) -> torch.Tensor:
        return actgp.ActivatedFeatures(3, 4, generator=torch.Generator().manual_seed(seed)).weights

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))
    torch.testing.assert_close(weights(1).norm(dim=-1), torch.ones(4))


@pytest.mark.parametrize("num_inducing", [1, 30, 500])
@pytest.mark.parametrize("input_dim", [1, 4])
def test_cholesky_never_fails(num_inducing: int, input_dim: int, dtype: torch.dtype) -> None:
    # On the circle Kuu has rank about 15, whatever M.
    features = actgp.ActivatedFeatures(input_dim, num_inducing, generator=torch.Generator().manual_seed(0)).to(dtype)
    with torch.no_grad():
        features.weights[num_inducing // 2 :] = features.weights[0]  # and repeated rows
    Kuu = features.Kuu(actgp.ArcCosine(input_dim).to(dtype))
    L, jitter = stable_cholesky(Kuu)
    assert 0 < jitter < 1e-4 * Kuu.diagonal().mean()
    torch.testing.assert_close(L @ L.T, Kuu + jitter * torch.eye(num_inducing, dtype=torch.float64))


def test_jitter_grows_as_far_as_it_must() -> None:
    K = torch.tensor([[1.0, 1.0 + 1e-5], [1.0 + 1e-5, 1.0]], dtype=torch.float64)  # smallest eigenvalue −1e-5
    L, jitter = stable_cholesky(K)
    assert 1e-5 < jitter <= 1e-4
    assert torch.isfinite(L).all()


def test_jitter_may_start_at_nothing() -> None:
    K = torch.tensor([[2.0, 1.0], [1.0, 2.0]], dtype=torch.float64)
    assert stable_cholesky(K, relative_jitter=0.0).jitter == 0.0
    singular = torch.ones(2, 2, dtype=torch.float64) - 1e-15 * torch.eye(2)
    assert 0.0 < stable_cholesky(singular, relative_jitter=0.0).jitter < 1e-9


def test_what_is_no_covariance_is_refused() -> None:
    with pytest.raises(ValueError, match="finite, positive diagonal, got mean nan; look for NaN"):
        stable_cholesky(torch.full((2, 2), torch.nan, dtype=torch.float64))
    with pytest.raises(ValueError, match="must be positive semi-definite, got one that is not"):
        stable_cholesky(torch.tensor([[1.0, 3.0], [3.0, 1.0]], dtype=torch.float64))


@pytest.mark.parametrize(
    ("build", "error", "text"),
    [
        (lambda: actgp.ActivatedFeatures(0, 5), ValueError, "input_dim must be at least 1, got 0"),
        (lambda: actgp.ActivatedFeatures(2, 0), ValueError, "num_inducing must be at least 1, got 0"),
        (lambda: actgp.ActivatedFeatures(2, 5, num_levels=0), ValueError, "num_levels must be at least 1, got 0"),
        (lambda: actgp.ActivatedFeatures(2, 5, "rellu"), ValueError, "activation must be one of"),
        (
            lambda: actgp.ActivatedFeatures(3000, 5, "relu", 64),
            ValueError,
            "energies must stay below 1e.30, got .*lower",
        ),
        (lambda: actgp.InducingPoints(torch.zeros(3)), ValueError, r"locations must have shape \[N, 3\], got \[3\]"),
        (lambda: actgp.InducingPoints(torch.zeros(0, 2)), ValueError, "at least one row"),
        (lambda: actgp.InducingPoints(torch.zeros(5, 0)), ValueError, "locations must have 1 columns, got 0"),
        (lambda: actgp.InducingPoints([[0.0]]), TypeError, "locations must be a torch.Tensor, got list"),
        (
            lambda: actgp.InducingPoints(torch.full((2, 2), torch.nan)),
            ValueError,
            "locations must be finite, got 4 NaN",
        ),
    ],
)
def test_bad_features_are_refused(build: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        build()  # type: ignore[operator]


def test_kernels_and_inputs_that_do_not_fit_are_refused() -> None:
    features = actgp.ActivatedFeatures(2, 5)
    with pytest.raises(TypeError, match="need a zonal kernel, got RBFKernel; use actgp.ArcCosine .* or InducingPoints"):
        features.Kuu(gpytorch.kernels.RBFKernel())
    with pytest.raises(ValueError, match="must have the same input_dim, got 3 and 2; build both"):
        features.Kuu(actgp.ArcCosine(3))
    with pytest.raises(ValueError, match=r"kernel of all inputs without batch_shape, got batch_shape \[2\]"):
        features.Kuu(actgp.ArcCosine(2, batch_shape=torch.Size([2])))
    with pytest.raises(ValueError, match="without batch_shape, got .* and active_dims .* select the columns of X"):
        features.Kuu(actgp.ArcCosine(2, active_dims=[0, 2]))
    kernel = actgp.ArcCosine(2)
    with pytest.raises(ValueError, match="X must have 2 columns, got 3; .* input_dim=3"):
        features.Kuf(kernel, torch.zeros(4, 3))
    with pytest.raises(ValueError, match=r"X must have shape \[N, 2\], got \[2\]; for a single column"):
        features.Kuf(kernel, torch.zeros(2))
    with pytest.raises(ValueError, match="X must have at least one row"):
        features.Kuf(kernel, torch.zeros(0, 2))
    with pytest.raises(ValueError, match=r"X must be finite, got 1 NaN or infinite values, the first at \(1, 0\)"):
        features.Kuf(kernel, torch.tensor([[0.0, 0.0], [torch.inf, 0.0]]))
    with pytest.raises(TypeError, match="X must be float32 or float64, got torch.int64"):
        features.Kuf(kernel, torch.zeros(4, 2, dtype=torch.long))


MISMATCHES = {
    "tanh under arc-cosine": (
        actgp.ArcCosine(4),
        "tanh",
        ["levels that the kernel does not have", "stays unexplained"],
    ),
    "relu, whose norm diverges": (actgp.ArcCosine(4), "relu", ["norm has not converged"]),
    "softplus under matern": (actgp.ZonalMatern(4), "softplus", ["levels that the activation does not have"]),
}


@pytest.mark.parametrize("name", MISMATCHES)
def test_mismatched_spectra_are_complained_of_once_each_with_the_remedy(name: str) -> None:
    kernel, activation, texts = MISMATCHES[name]
    features = actgp.ActivatedFeatures(4, 10, activation)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        actgp.GPLayer(kernel, features)
    messages = [str(w.message) for w in caught if w.category is actgp.SpectralMismatchWarning]
    assert len(messages) == len(texts)
    for message, text in zip(messages, texts, strict=True):
        assert text.replace("stays ", "") in message.replace("stays ", "")
        assert "use " in message


def test_the_warning_points_at_the_users_line() -> None:
    features = actgp.ActivatedFeatures(4, 10, "relu")
    for build in (
        lambda: actgp.GPLayer(actgp.ArcCosine(4), features),
        lambda: actgp.SVGP(actgp.ArcCosine(4), features, gpytorch.likelihoods.GaussianLikelihood()),
        lambda: actgp.SGPR(torch.zeros(2, 4), torch.zeros(2), actgp.ArcCosine(4), features),
    ):
        with pytest.warns(actgp.SpectralMismatchWarning) as caught:
            build()
        assert caught[0].filename == __file__


def test_few_levels_are_told_from_missing_ones() -> None:
    complaints = actgp.ActivatedFeatures(8, 10, "softplus", num_levels=2).complaints(actgp.ArcCosine(8))
    assert len(complaints) == 1
    assert "lies beyond the 2 levels that are kept" in complaints[0]
    assert "use more levels" in complaints[0]


@pytest.mark.parametrize("kernel", [actgp.ArcCosine(4), actgp.MatchedKernel(4, "tanh"), actgp.MatchedKernel(4, "relu")])
def test_matching_spectra_are_not_complained_of(kernel: actgp.ZonalKernel) -> None:
    activation = kernel.activation if isinstance(kernel, actgp.MatchedKernel) else actgp.Softplus(1.0)
    complaints = actgp.ActivatedFeatures(4, 10, activation).complaints(kernel)
    assert [c for c in complaints if "levels that" in c] == []


def test_spectra_without_a_common_level_are_refused() -> None:
    with pytest.raises(ValueError, match="must share a level, got none among the first 1; raise num_levels"):
        actgp.GPLayer(actgp.ArcCosine(2), actgp.ActivatedFeatures(2, 3, "tanh", num_levels=1))


def test_the_match_counts_what_the_spectra_say() -> None:
    match = actgp.ActivatedFeatures(2, 3, "relu", num_levels=12).match(actgp.ArcCosine(2))
    # ReLU under arc-cosine: c_n = a_n²/k_n = N_n/(2d) at each of its levels.
    expected = [actgp.num_harmonics(n, 3) / 6 if n < 2 or n % 2 == 0 else 0.0 for n in range(12)]
    torch.testing.assert_close(match.norms, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=0)
    assert match.lost == pytest.approx(0.0, abs=1e-12)
    assert match.upper_norm == pytest.approx(sum(expected[6:]) / sum(expected))
