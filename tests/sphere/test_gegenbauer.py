import pytest
import scipy.special
import torch
from hypothesis import given
from hypothesis import strategies as st

import actgp


@given(dimension=st.integers(3, 40))
def test_paper_scale_agrees_with_scipy(dimension: int) -> None:
    t = torch.linspace(-1, 1, 41, dtype=torch.float64)
    C = actgp.gegenbauer(t, dimension, 12)
    for n in range(12):
        expected = torch.from_numpy(scipy.special.eval_gegenbauer(n, (dimension - 2) / 2, t.numpy()))
        torch.testing.assert_close(C[:, n], expected, rtol=1e-11, atol=1e-11 * float(expected.abs().max()))


def test_dimension_two_is_chebyshev(dtype: torch.dtype, tolerance: dict[str, float]) -> None:
    theta = torch.linspace(0, torch.pi, 30, dtype=dtype)
    P = actgp.normalised_gegenbauer(theta.cos(), 2, 20)
    torch.testing.assert_close(P, torch.cos(theta[:, None] * torch.arange(20)), **tolerance)


@given(dimension=st.integers(2, 4096))
def test_normalised_polynomials_are_bounded_by_their_value_at_one(dimension: int) -> None:
    P = actgp.normalised_gegenbauer(torch.linspace(-1, 1, 101, dtype=torch.float64), dimension, 64)
    torch.testing.assert_close(P[-1], torch.ones(64, dtype=torch.float64), rtol=1e-12, atol=0)
    assert P.abs().max() <= 1 + 1e-12


@pytest.mark.parametrize("dimension", [2, 3, 8])
def test_orthogonality_with_norm_one_over_the_number_of_harmonics(dimension: int) -> None:
    # ω_d ∫ P_n P_m (1−t²)^((d−3)/2) dt = δ_nm / N_n
    nodes, weights = scipy.special.roots_jacobi(40, (dimension - 3) / 2, (dimension - 3) / 2)
    P = actgp.normalised_gegenbauer(torch.from_numpy(nodes), dimension, 10)
    w = torch.from_numpy(weights / weights.sum())
    gram = P.T @ (w[:, None] * P)
    counts = torch.tensor([float(actgp.num_harmonics(n, dimension)) for n in range(10)], dtype=torch.float64)
    torch.testing.assert_close(gram, torch.diag(1 / counts), rtol=1e-12, atol=1e-14)


def test_float32_keeps_its_digits_at_level_63() -> None:
    t = torch.linspace(-1, 1, 1001, dtype=torch.float64)
    exact = actgp.normalised_gegenbauer(t, 9, 64)
    single = actgp.normalised_gegenbauer(t.float(), 9, 64).double()
    # t itself is rounded, which P_n' ≤ n(n+d−2)/(d−1) magnifies near ±1; inside, errors stay at round-off.
    inside = t.abs() < 0.9
    assert (single - exact)[inside].abs().max() < 2e-6


def test_paper_scale_degenerates_in_dimension_two() -> None:
    with pytest.raises(ValueError, match="dimension must be at least 3 .* got 2.* use normalised_gegenbauer"):
        actgp.gegenbauer(torch.zeros(3), 2, 4)


def test_values_beyond_the_precision_are_refused() -> None:
    with pytest.raises(
        ValueError, match="must stay within torch.float32, got more than 3e.38 at level 20 .* normalised"
    ):
        actgp.gegenbauer(torch.zeros(1), 1025, 21)
    with pytest.raises(ValueError, match="must stay within torch.float64"):
        actgp.gegenbauer(torch.zeros(1).double(), 4096, 300)


def test_wrong_points_and_levels_are_refused() -> None:
    with pytest.raises(TypeError, match=r"t must be a torch.Tensor, got list; convert it with torch.as_tensor"):
        actgp.normalised_gegenbauer([0.5], 3, 4)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"t must be float32 or float64, got torch.int64; convert it with t.float\(\)"):
        actgp.normalised_gegenbauer(torch.tensor([0]), 3, 4)
    with pytest.raises(ValueError, match="num_levels must be at least 1, got 0"):
        actgp.normalised_gegenbauer(torch.zeros(1), 3, 0)
