"""Spectra against an evaluation that shares nothing with ours: P_n by its hypergeometric series, 60 digits or more."""

from collections.abc import Callable
from math import ceil, log10, sqrt

import mpmath
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import actgp

Exact = Callable[[mpmath.mpf], mpmath.mpf]


def reference_energy(shape: Exact, dimension: int, level: int) -> float:
    """N_n ω_d ∫ s P_n w, by Gauss–Legendre on pieces that follow the weight, with 60 digits to spare over N_n."""
    count = actgp.num_harmonics(level, dimension)
    with mpmath.workdps(60 + ceil(log10(count))):
        d = mpmath.mpf(dimension)
        nu = (d - 3) / 2
        omega = mpmath.gamma(d / 2) / (mpmath.gamma((d - 1) / 2) * mpmath.sqrt(mpmath.pi))
        # P_n is a polynomial in (1−t)/2 with hypergeometric coefficients.
        coefficients = [
            mpmath.rf(-level, j) * mpmath.rf(level + d - 2, j) / (mpmath.rf((d - 1) / 2, j) * mpmath.factorial(j))
            for j in range(level, -1, -1)
        ]

        def integrand(angle: mpmath.mpf) -> mpmath.mpf:
            # In the angle from the equator, t = sin δ, the weight is cos^(d−2) δ for every d ≥ 2.
            t = mpmath.sin(angle)
            return shape(t) * mpmath.polyval(coefficients, (1 - t) / 2) * mpmath.cos(angle) ** (2 * nu + 1)

        quarter = mpmath.pi / 2
        width = mpmath.mpf(4) / sqrt(dimension)
        inner = [x for x in (width, 2 * width, 4 * width) if x < quarter]
        pieces = sorted([-quarter, *(-x for x in inner), 0, *inner, quarter])
        return float(count * omega * mpmath.quad(integrand, pieces, method="gauss-legendre", maxdegree=9))


def softplus(beta: float) -> Exact:
    return lambda t: mpmath.log(1 + mpmath.exp(beta * t)) / beta


SHAPES: dict[str, tuple[object, Exact]] = {
    "softplus 1": (actgp.Softplus(1.0), softplus(1.0)),
    "softplus 3": (actgp.Softplus(3.0), softplus(3.0)),
    "swish": (actgp.Swish(), lambda t: t / (1 + mpmath.exp(-t))),
    "gelu": (actgp.GELU(), lambda t: t * (1 + mpmath.erf(t / mpmath.sqrt(2))) / 2),
    "tanh": (actgp.Tanh(), mpmath.tanh),
    "relu": (actgp.ReLU(), lambda t: max(t, mpmath.mpf(0))),
    "arc-cosine 0": (actgp.ArcCosine(2, order=0), lambda t: 1 - mpmath.acos(t) / mpmath.pi),
    "arc-cosine 1": (
        actgp.ArcCosine(2),
        lambda t: (mpmath.sqrt(1 - t**2) + t * (mpmath.pi - mpmath.acos(t))) / mpmath.pi,
    ),
    "arc-cosine 2": (
        actgp.ArcCosine(2, order=2),
        lambda t: (3 * mpmath.sqrt(1 - t**2) * t + (mpmath.pi - mpmath.acos(t)) * (1 + 2 * t**2)) / (3 * mpmath.pi),
    ),
    "matern 1/2": (actgp.ZonalMatern(2, nu=0.5), lambda t: mpmath.exp(-mpmath.sqrt(2 - 2 * t))),
    "matern 5/2": (
        actgp.ZonalMatern(2, nu=2.5),
        lambda t: (1 + mpmath.sqrt(10 - 10 * t) + 10 * (1 - t) / 3) * mpmath.exp(-mpmath.sqrt(10 - 10 * t)),
    ),
    "rbf": (actgp.ZonalRBF(2), lambda t: mpmath.exp(t - 1)),
}


@pytest.mark.parametrize("dimension", [2, 7, 129])
@pytest.mark.parametrize("name", SHAPES)
def test_energies_of_every_shape(name: str, dimension: int) -> None:
    shape, exact = SHAPES[name]
    ours = actgp.spectrum(shape, dimension, 20).energies
    for level in (0, 3, 8):
        expected = reference_energy(exact, dimension, level)
        assert ours[level].item() == pytest.approx(expected, rel=1e-10, abs=1e-40), f"level {level}"


def test_the_energies_of_the_papers_image_models() -> None:
    ours = actgp.spectrum(actgp.Softplus(beta=3), 1025, 20).energies
    for level in (0, 2, 18):
        assert ours[level].item() == pytest.approx(reference_energy(softplus(3.0), 1025, level), rel=1e-10)
    assert torch.equal(ours[3::2], torch.zeros(9, dtype=torch.float64))


def reference_from_taylor(coefficient: Callable[[int], mpmath.mpf], dimension: int, level: int) -> float:
    """a_n of s(t) = Σ_k τ_k t^k: with Rodrigues' formula t^k has a Beta function on each level n ≤ k of its parity.

    N_n ω_d ∫ t^k P_n w = N_n ω_d / (2^n (ν+1)_n) · k!/(k−n)! · B((k−n+1)/2, n+ν+1),   ν = (d−3)/2
    """
    with mpmath.workdps(120):
        nu, n = mpmath.mpf(dimension - 3) / 2, level
        omega = 1 / mpmath.beta(mpmath.mpf(1) / 2, nu + 1)
        total = mpmath.mpf(0)
        k = n
        while True:
            moment = mpmath.ff(k, n) * mpmath.beta(mpmath.mpf(k - n + 1) / 2, n + nu + 1)
            term = coefficient(k) * moment
            total += term
            k += 2
            if abs(term) < abs(total) * mpmath.mpf(10) ** -70:
                return float(actgp.num_harmonics(n, dimension) * omega / (2**n * mpmath.rf(nu + 1, n)) * total)


def softplus_taylor(beta: int) -> Callable[[int], mpmath.mpf]:
    # log(2 cosh x/2) = log 2 + Σ_j (4^j − 1) B_2j x^2j / (2j (2j)!)
    def coefficient(k: int) -> mpmath.mpf:
        if k < 2:
            return (mpmath.log(2) / beta, mpmath.mpf(1) / 2)[k]
        return (mpmath.mpf(2) ** k - 1) * mpmath.bernoulli(k) / (k * mpmath.factorial(k)) * mpmath.mpf(beta) ** (k - 1)

    return coefficient


def tanh_taylor(k: int) -> mpmath.mpf:
    # tanh x = Σ_j 4^j (4^j − 1) B_2j x^(2j−1) / (2j)!
    power = mpmath.mpf(2) ** (k + 1)
    return power * (power - 1) * mpmath.bernoulli(k + 1) / mpmath.factorial(k + 1)


def gelu_taylor(k: int) -> mpmath.mpf:
    # t Φ(t) = t/2 + (1/√2π) Σ_j (−1)^j t^(2j+2) / (2^j j! (2j+1))
    if k % 2 or k == 0:
        return mpmath.mpf(k == 1) / 2
    j = k // 2 - 1
    return (-1) ** j / (mpmath.sqrt(2 * mpmath.pi) * mpmath.mpf(2) ** j * mpmath.factorial(j) * (2 * j + 1))


@pytest.mark.parametrize("dimension", [2, 3, 14, 257, 1025, 4096])
@pytest.mark.parametrize(
    ("shape", "coefficient", "levels"),
    [
        (actgp.Softplus(1.0), softplus_taylor(1), (0, 1, 2, 18, 40, 62)),
        (actgp.Softplus(2.0), softplus_taylor(2), (0, 1, 2, 18, 40, 62)),
        (actgp.GELU(), gelu_taylor, (0, 1, 2, 18, 40, 62)),
        (actgp.Tanh(), tanh_taylor, (1, 3, 19, 41, 63)),
        (actgp.ZonalRBF(2), lambda k: mpmath.exp(-1) / mpmath.factorial(k), (0, 1, 2, 19, 40, 63)),
    ],
    ids=["softplus 1", "softplus 2", "gelu", "tanh", "rbf"],
)
def test_all_64_levels_in_every_dimension(
    shape: actgp.sphere.Zonal, coefficient: Callable[[int], mpmath.mpf], levels: tuple[int, ...], dimension: int
) -> None:
    ours = actgp.spectrum(shape, dimension, 64).energies
    for level in levels:
        expected = reference_from_taylor(coefficient, dimension, level)
        assert ours[level].item() == pytest.approx(expected, rel=1e-10, abs=0), f"level {level}"


@pytest.mark.parametrize("dimension", [2, 3, 10, 1025, 4096])
def test_closed_form_of_relu(dimension: int) -> None:
    # The paper's appendix C.2.
    with mpmath.workdps(60):
        d = mpmath.mpf(dimension)
        for n in (2, 4, 20, 62):
            sigma = mpmath.gamma(d / 2) * (-1) ** (n // 2 - 1) * mpmath.gamma(n - 1)
            sigma /= mpmath.sqrt(mpmath.pi) * mpmath.mpf(2) ** n * mpmath.gamma(n / 2) * mpmath.gamma((n + d + 1) / 2)
            ours = actgp.spectrum(actgp.ReLU(), dimension, 64).energies[n].item()
            assert ours == pytest.approx(float(sigma * actgp.num_harmonics(n, dimension)), rel=1e-12)


# The printed digits of the paper's tables C.1 and C.2.
PRINTED = {
    ("arc-cosine 1", 3): [0.375, 0.167, 0.0234, 0, 0.000651, 0, 9.16e-05, 0, 2.29e-05, 0],
    ("arc-cosine 1", 5): [0.352, 0.1, 0.00977, 0, 0.000153, 0, 1.37e-05, 0, 2.38e-06, 0],
    ("arc-cosine 1", 7): [0.342, 0.0714, 0.00534, 0, 5.34e-05, 0, 3.34e-06, 0, 4.26e-07, 0],
    ("relu", 3): [0.25, 0.167, 0.0625, 0, -0.0104, 0, 0.00391, 0, -0.00195, 0],
    ("relu", 5): [0.188, 0.1, 0.0312, 0, -0.00391, 0, 0.00117, 0, -0.000488, 0],
    ("relu", 7): [0.156, 0.0714, 0.0195, 0, -0.00195, 0, 0.000488, 0, -0.000174, 0],
}


@pytest.mark.parametrize(("name", "dimension"), PRINTED)
def test_the_tables_of_the_paper(name: str, dimension: int) -> None:
    eigenvalues = actgp.spectrum(SHAPES[name][0], dimension, 10).eigenvalues.tolist()
    for ours, printed in zip(eigenvalues, PRINTED[name, dimension], strict=True):
        assert float(f"{ours:.3g}") == pytest.approx(printed, rel=1e-12, abs=0)


@given(dimension=st.integers(2, 4096))
def test_arc_cosine_is_the_covariance_of_relu(dimension: int) -> None:
    relu = actgp.spectrum(actgp.ReLU(), dimension, 30)
    kernel = actgp.spectrum(actgp.ArcCosine(2), dimension, 30)
    torch.testing.assert_close(kernel.eigenvalues, 2 * dimension * relu.eigenvalues**2, rtol=1e-12, atol=0)


@pytest.mark.parametrize("name", ["arc-cosine 1", "arc-cosine 2", "matern 5/2", "rbf"])
def test_energies_of_a_kernel_are_positive_and_sum_to_its_value_at_one(name: str) -> None:
    energies = actgp.spectrum(SHAPES[name][0], 6, 64).energies
    assert (energies >= 0).all()
    assert energies.sum().item() == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("activation", [actgp.Softplus(3.0), actgp.Swish(2.0), actgp.GELU(2.0)])
def test_odd_levels_of_an_odd_part_that_is_linear_are_exactly_zero(activation: actgp.Activation) -> None:
    energies = actgp.spectrum(activation, 7, 20).energies
    assert torch.equal(energies[3::2], torch.zeros(9, dtype=torch.float64))
    assert energies[1].item() == pytest.approx(0.5, rel=1e-14)  # σ(t) − σ(−t) = t
    assert (energies[::2] != 0).all()


def test_spectra_are_computed_once() -> None:
    calls = []

    def exact(t: mpmath.mpf) -> mpmath.mpf:
        calls.append(t)
        return mpmath.cos(2 * t)

    activation = actgp.CustomActivation(lambda t: torch.cos(2 * t), exact)
    first = actgp.spectrum(activation, 5, 12).energies
    count = len(calls)
    assert count > 100
    assert torch.equal(actgp.spectrum(activation, 5, 12).energies, first)
    assert len(calls) == count


def test_eigenvalues_are_energies_divided_by_the_number_of_harmonics() -> None:
    spectrum = actgp.spectrum(actgp.ReLU(), 2000, 12)
    counts = torch.tensor([float(actgp.num_harmonics(n, 2000)) for n in range(12)], dtype=torch.float64)
    torch.testing.assert_close(spectrum.eigenvalues * counts, spectrum.energies, rtol=1e-14, atol=0)
    assert spectrum.dimension == 2000
    assert spectrum.num_levels == 12
    assert spectrum.energies.dtype == torch.float64


def test_working_precision_of_mpmath_is_left_as_it_was() -> None:
    with mpmath.workdps(33):
        actgp.spectrum(actgp.Softplus(2.5), 4, 10)
        assert mpmath.mp.dps == 33


@pytest.mark.parametrize(
    ("dimension", "num_levels", "text"),
    [(1, 5, "dimension must be at least 2, got 1"), (3, 0, "num_levels must be at least 1, got 0")],
)
def test_dimension_and_levels_out_of_range(dimension: int, num_levels: int, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        actgp.spectrum(actgp.ReLU(), dimension, num_levels)


def test_what_has_no_spectrum_is_refused() -> None:
    with pytest.raises(
        TypeError, match="must be an actgp kernel or activation, got ReLU; wrap a function in actgp.Custom"
    ):
        actgp.spectrum(torch.nn.ReLU(), 3, 4)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be an actgp kernel or activation, got ABCMeta"):
        actgp.spectrum(actgp.ReLU, 3, 4)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be an actgp kernel or activation, got Spectrum"):
        actgp.spectrum(actgp.spectrum(actgp.ReLU(), 3, 4), 3, 4)  # type: ignore[arg-type]


def test_a_function_that_is_too_rough_is_refused() -> None:
    rough = actgp.CustomActivation(lambda t: torch.sign(torch.sin(40 * t)), lambda t: mpmath.sign(mpmath.sin(40 * t)))
    with pytest.raises(
        ArithmeticError, match="did not converge in dimension 3: expected a shape function that is smooth"
    ):
        actgp.spectrum(rough, 3, 4)
