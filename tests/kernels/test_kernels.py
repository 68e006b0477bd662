import mpmath
import pytest
import torch
from contract import check_kernel

import actgp


@pytest.mark.parametrize(
    ("kernel", "levels", "error"),
    [
        (actgp.ArcCosine(3), 40, 1e-5),
        (actgp.ArcCosine(3, order=0), 40, 1e-2),
        (actgp.ArcCosine(3, order=2), 40, 1e-7),
        (actgp.ZonalMatern(3, nu=0.5), 40, 4e-2),
        (actgp.ZonalMatern(3, nu=1.5), 40, 2e-4),
        (actgp.ZonalMatern(3, nu=2.5), 40, 2e-6),
        (actgp.ZonalRBF(3), 30, 1e-14),
        (actgp.SpectralKernel(3, [1.0, 0.0, 2.0, 3.0]), 6, 1e-14),
        (actgp.MatchedKernel(3, "softplus"), 20, 1e-14),
        (actgp.MatchedKernel(3, actgp.Softplus(2.0, learnable=True)), 20, 1e-14),
        (actgp.CustomKernel(3, lambda t: torch.exp(2 * t - 2), lambda t: mpmath.exp(2 * t - 2)), 30, 1e-14),
        (actgp.CustomKernel(3, lambda t: (1 + t) / 2), 5, 1e-14),
    ],
    ids=lambda value: (
        f"{type(value).__name__}-{getattr(value, 'order', getattr(value, 'nu', ''))}"
        if isinstance(value, actgp.ZonalKernel)
        else ""
    ),
)
def test_contract(kernel: actgp.ZonalKernel, levels: int, error: float) -> None:
    check_kernel(kernel, series_levels=levels, series_error=error)


def test_arc_cosine_is_the_covariance_of_a_random_relu_layer(generator: torch.Generator) -> None:
    # k(x, x') = 2 E[relu(w·x̃) relu(w·x̃')] over w ~ N(0, I): the paper's eq. 5 with s(1) = 1.
    X = torch.randn(4, 2, dtype=torch.float64, generator=generator)
    W = torch.randn(400_000, 3, dtype=torch.float64, generator=generator)
    for order, scale in ((0, 2.0), (1, 2.0), (2, 2.0 / 3.0)):
        lifted = torch.nn.functional.pad(X, (0, 1), value=1.0)
        direction = lifted / lifted.norm(dim=-1, keepdim=True)
        hidden = (W @ direction.T > 0) * (W @ direction.T) ** order
        expected = scale * hidden.T @ hidden / len(W)
        kernel = actgp.ArcCosine(2, order=order).double()
        torch.testing.assert_close(kernel.shape((direction @ direction.T).clamp(-1, 1)), expected, rtol=0, atol=0.02)


def test_gradient_of_arc_cosine_at_coincident_inputs_is_the_limit() -> None:
    # ∂k(x, x')/∂x at x' = x, approached along a line.
    kernel = actgp.ArcCosine(2).double()
    x = torch.tensor([[0.3, -0.7]], dtype=torch.float64)

    def gradient(other: torch.Tensor) -> torch.Tensor:
        moving = x.clone().requires_grad_()
        return torch.autograd.grad(kernel(moving, other).to_dense().sum(), moving)[0]

    at = gradient(x.clone())
    assert torch.isfinite(at).all()
    torch.testing.assert_close(at, gradient(x + 1e-7), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(at, x, rtol=1e-12, atol=1e-12)  # v x / ℓ²: half of d(v r²)/dx


def test_scaling_every_lengthscale_and_the_bias_is_scaling_the_variance() -> None:
    # Why the bias has no lengthscale of its own: [x, 1]/c gives k / c².
    kernel = actgp.ArcCosine(2).double()
    X = torch.randn(5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    c = 3.0
    lifted = torch.cat([X, torch.ones(5, 1)], dim=-1) / c
    r = lifted.norm(dim=-1)
    t = (lifted / r[:, None]) @ (lifted / r[:, None]).T
    scaled = r[:, None] * r * kernel.shape(t.clamp(-1, 1))
    kernel.variance = 1 / c**2
    torch.testing.assert_close(kernel(X).to_dense(), scaled)


def test_matched_kernel_has_the_activations_levels() -> None:
    activation = actgp.Softplus(3.0)
    a = activation.energies(6, 20)
    k = actgp.MatchedKernel(5, activation, num_levels=20).energies(6, 25)
    torch.testing.assert_close(k[:20], a.abs() / a.abs().sum(), rtol=1e-14, atol=0)
    assert torch.equal(k[20:], torch.zeros(5, dtype=torch.float64))


def test_matched_kernel_follows_a_learnable_sharpness() -> None:
    kernel = actgp.MatchedKernel(2, actgp.Softplus(2.0, learnable=True))
    X = torch.randn(4, 2, generator=torch.Generator().manual_seed(0))
    kernel(X).to_dense().sum().backward()
    assert kernel.activation.raw_beta.grad.abs() > 0


def test_spectral_energies_are_normalised() -> None:
    energies = actgp.SpectralKernel(2, torch.tensor([2.0, 6.0])).energies(3, 3)
    assert energies.tolist() == [0.25, 0.75, 0.0]


@pytest.mark.parametrize(
    ("build", "error", "text"),
    [
        (lambda: actgp.ArcCosine(0), ValueError, "input_dim must be at least 1, got 0"),
        (lambda: actgp.ArcCosine(2.5), TypeError, "input_dim must be an integer, got 2.5"),
        (lambda: actgp.ArcCosine(2, order=1.0), TypeError, "order must be an integer, got 1.0"),
        (lambda: actgp.MatchedKernel(2, "tanh", 1), ValueError, "energy on some level, got none on the first 1; raise"),
        (lambda: setattr(actgp.ArcCosine(2), "variance", -1.0), ValueError, "variance must be positive, got -1.0"),
        (lambda: actgp.ArcCosine(2, order=3), ValueError, r"order must be one of \[0, 1, 2\], got 3"),
        (lambda: actgp.ZonalMatern(2, nu=1.0), ValueError, r"nu must be one of \[0.5, 1.5, 2.5\], got 1.0"),
        (lambda: actgp.SpectralKernel(2, [1.0, -1.0]), ValueError, "energies must not be negative .* take absolute"),
        (lambda: actgp.SpectralKernel(2, [0.0]), ValueError, "not all be zero"),
        (
            lambda: actgp.SpectralKernel(2, [[1.0]]),
            ValueError,
            r"energies must have shape \[num_levels\], got \[1, 1\]",
        ),
        (lambda: actgp.SpectralKernel(2, [float("nan")]), ValueError, "energies must be finite, got 1 NaN"),
        (lambda: actgp.MatchedKernel(2, "sofplus"), ValueError, "activation must be one of"),
        (lambda: actgp.CustomKernel(2, torch.exp), ValueError, r"must have s\(1\) = 1, got 2.718"),
        (
            lambda: actgp.CustomKernel(2, lambda t: 2 * t**2 - 1),
            ValueError,
            "must not be negative, got -0.333 at level 0",
        ),
    ],
)
def test_bad_kernels_are_refused(build: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        build()  # type: ignore[operator]


def test_wrong_inputs_are_refused() -> None:
    kernel = actgp.ArcCosine(2)
    with pytest.raises(ValueError, match=r"x must have shape \[..., N, 2\], got \[4, 3\]; .* input_dim=3"):
        kernel(torch.zeros(4, 3))
    with pytest.raises(ValueError, match="got \\[4, 1\\]"):
        kernel(torch.zeros(4, 2), torch.zeros(4, 1))
    with pytest.raises(TypeError, match="x must be float32 or float64, got torch.int64"):
        kernel(torch.zeros(4, 2, dtype=torch.long))
    with pytest.raises(ValueError, match="last_dim_is_batch must be False, got True; use one kernel with batch_shape"):
        kernel.forward(torch.zeros(4, 2), torch.zeros(4, 2), last_dim_is_batch=True)
    with pytest.raises(
        ValueError, match="spectrum in its own dimension 3 only, got dimension 5; build it with input_dim=4"
    ):
        actgp.spectrum(actgp.SpectralKernel(2, [1.0]), 5, 3)


def test_active_dims_select_columns() -> None:
    X = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    for kernel in (actgp.ArcCosine(2, active_dims=[0, 2]), actgp.ZonalMatern(2, active_dims=[0, 2])):
        whole = type(kernel)(2)
        torch.testing.assert_close(kernel(X).to_dense(), whole(X[:, [0, 2]]).to_dense())
    both = actgp.ArcCosine(1, active_dims=[1]) + actgp.ZonalRBF(2, active_dims=[0, 2])
    torch.testing.assert_close(
        both(X).to_dense(), actgp.ArcCosine(1)(X[:, [1]]).to_dense() + actgp.ZonalRBF(2)(X[:, [0, 2]]).to_dense()
    )


def test_one_input_may_be_given_as_a_vector() -> None:
    kernel = actgp.ArcCosine(1)
    x = torch.linspace(-1, 1, 5)
    torch.testing.assert_close(kernel(x).to_dense(), kernel(x[:, None]).to_dense())


def test_nobody_writes_into_the_energies_of_a_kernel() -> None:
    kernel = actgp.MatchedKernel(2)
    kernel.energies(3, kernel.num_levels).mul_(2)
    again = actgp.MatchedKernel(2)
    assert again.shape(torch.ones((), dtype=torch.float64)).item() == pytest.approx(1.0)


def test_a_subclass_has_a_spectrum_of_its_own() -> None:
    class Halved(actgp.ReLU):
        def energies(self, dimension: int, num_levels: int) -> torch.Tensor:
            return 0.5 * super().energies(dimension, num_levels)

    plain, halved = (actgp.ActivatedFeatures(2, 3, a, 8).match(actgp.ArcCosine(2)) for a in (actgp.ReLU(), Halved()))
    torch.testing.assert_close(2 * halved.shared, plain.shared)
