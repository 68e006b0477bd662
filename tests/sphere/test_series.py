import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck

import actgp
from actgp.sphere.polynomial import connection
from actgp.sphere.series import Series


@given(dimension=st.integers(2, 2000), levels=st.integers(1, 64), seed=st.integers(0, 1000))
def test_clenshaw_is_the_sum_of_polynomials(dimension: int, levels: int, seed: int) -> None:
    g = torch.Generator().manual_seed(seed)
    t = torch.rand(7, 3, dtype=torch.float64, generator=g) * 2 - 1
    e = torch.randn(levels, dtype=torch.float64, generator=g)
    expected = actgp.normalised_gegenbauer(t, dimension, levels) @ e
    torch.testing.assert_close(actgp.zonal_series(t, e, dimension), expected, rtol=1e-11, atol=1e-11)


def test_both_precisions_agree(dtype: torch.dtype, tolerance: dict[str, float]) -> None:
    t = torch.linspace(-1, 1, 50, dtype=torch.float64)
    e = actgp.spectrum(actgp.Softplus(3.0), 9, 20).energies
    result = actgp.zonal_series(t.to(dtype), e, 9)
    assert result.dtype == dtype
    torch.testing.assert_close(result.double(), actgp.normalised_gegenbauer(t, 9, 20) @ e, **tolerance)


@pytest.mark.parametrize("dimension", [2, 3, 9])
@pytest.mark.parametrize("shape", [(5,), (2, 1, 1, 5), (4, 5), (1, 1)])
def test_gradients_of_first_and_second_order_in_points_and_coefficients(dimension: int, shape: tuple[int, ...]) -> None:
    g = torch.Generator().manual_seed(1)
    t = (torch.rand(3, 4, dtype=torch.float64, generator=g) * 2 - 1).requires_grad_()
    e = torch.randn(*shape, dtype=torch.float64, generator=g).requires_grad_()

    def series(t: torch.Tensor, e: torch.Tensor) -> torch.Tensor:
        return actgp.zonal_series(t, e, dimension)

    assert gradcheck(series, (t, e))
    assert gradgradcheck(series, (t, e))


def test_derivative_is_exact_at_the_ends() -> None:
    # P_n'(1) = n (n+d−2) / (d−1), where differences would be one-sided.
    d, n = 7, 5
    e = torch.nn.functional.one_hot(torch.tensor(n), 8).double()
    t = torch.tensor([1.0, -1.0], dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(actgp.zonal_series(t, e, d).sum(), t)
    expected = n * (n + d - 2) / (d - 1)
    torch.testing.assert_close(slope, torch.tensor([expected, expected], dtype=torch.float64))


@given(dimension=st.integers(2, 4096), levels=st.integers(1, 64))
def test_polynomials_are_averages_of_cosines(dimension: int, levels: int) -> None:
    G = torch.from_numpy(connection(dimension, levels))
    assert (G >= 0).all()
    torch.testing.assert_close(G.sum(1), torch.ones(levels, dtype=torch.float64))
    theta = torch.linspace(0, 3, 20, dtype=torch.float64)
    cosines = torch.cos(theta[:, None] * torch.arange(levels))  # T_k(cos θ) = cos kθ
    expected = actgp.normalised_gegenbauer(theta.cos(), dimension, levels)
    torch.testing.assert_close(cosines @ G.T, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("levels", [slice(0, None, 2), slice(1, None, 2), slice(0, 1), slice(1, 2), slice(2, 3)])
def test_levels_of_one_parity_need_not_be_summed(levels: slice) -> None:
    t = torch.linspace(-1, 1, 30, dtype=torch.float64)
    e = torch.zeros(12, dtype=torch.float64)
    e[levels] = 0.7
    expected = actgp.normalised_gegenbauer(t, 5, 12) @ e
    torch.testing.assert_close(actgp.zonal_series(t, e, 5), expected)
    torch.testing.assert_close(actgp.zonal_series(t, e.expand(1, 12), 5), expected)


def test_only_points_and_coefficients_are_kept_for_the_backward_pass() -> None:
    t = torch.zeros(100, 100, requires_grad=True)
    output = Series.apply(t, torch.ones(40), 5)
    saved = output.grad_fn.saved_tensors
    assert sorted(s.numel() for s in saved) == [40, 10_000]


def test_bad_series_are_refused() -> None:
    with pytest.raises(ValueError, match=r"energies must have shape \[..., num_levels\], got \[0\]"):
        actgp.zonal_series(torch.zeros(2), torch.zeros(0), 3)
    with pytest.raises(TypeError, match="t must be float32 or float64, got torch.int64; convert it with"):
        actgp.zonal_series(torch.tensor([0, 1]), torch.tensor([0.5, 0.5]), 3)
    with pytest.raises(ValueError, match="dimension must be at least 2, got 1"):
        actgp.zonal_series(torch.zeros(2), torch.zeros(3), 1)
