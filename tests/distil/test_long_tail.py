"""Logarithms of targets with a long tail: back and forth, slopes, densities and moments."""

import pytest
import torch
from torch import Tensor

from actgp.distil import LongTail, LongTailed, Normals, lengthened, log_slope, shortened
from actgp.distil.outputs import joined

TAILS = {
    "right": [1.0, 2.0, 0.5, 40.0],
    "left": [-1.0, 2.0, 0.5, 40.0],
    "none": [1.0, 0.0, 1.0, 0.0],
}
TAIL = torch.tensor([TAILS["right"], TAILS["left"], TAILS["none"]], dtype=torch.float64).T  # [4, 3]
Y = torch.linspace(-100, 100, 2_001, dtype=torch.float64)


def every_tail(y: Tensor) -> Tensor:
    return y.unsqueeze(-1).expand(*y.shape, 3).clone()


def test_there_and_back() -> None:
    y = every_tail(Y)
    torch.testing.assert_close(lengthened(shortened(y, TAIL), TAIL), y)
    torch.testing.assert_close(shortened(lengthened(y / 10, TAIL), TAIL), y / 10)
    assert (shortened(y, TAIL).diff(dim=0) > 0).all()
    torch.testing.assert_close(shortened(y, TAIL)[:, 2], Y, rtol=0, atol=0)


def test_it_is_a_logarithm_between_its_ends_and_straight_beyond() -> None:
    y, tail = torch.tensor([1.0, 2.0, 10.0, 42.0, 52.0, 62.0]).double().unsqueeze(1), TAIL[:, :1]
    t = shortened(y, tail).squeeze(1)
    torch.testing.assert_close(t[1:4], ((0.5 + y[1:4, 0] - 2) / 0.5).log())
    torch.testing.assert_close(t[1] - t[0], torch.tensor(1 / 0.5).double())
    torch.testing.assert_close(t[4:] - t[3], torch.tensor([10 / 40.5, 20 / 40.5]).double())


def test_slopes_are_derivatives() -> None:
    y = every_tail(Y + 0.01).requires_grad_()
    (slope,) = torch.autograd.grad(shortened(y, TAIL).sum(), y)
    torch.testing.assert_close(log_slope(y, TAIL).exp(), slope)


@pytest.fixture(scope="module")
def said() -> LongTailed:
    """Two rows, a mixture of two normals each, three targets."""
    g = torch.Generator().manual_seed(0)
    weights = torch.tensor([0.7, 0.3]).double().view(2, 1, 1).expand(2, 2, 3)
    means, variances = torch.rand(2, 2, 3, generator=g).double(), 0.1 + 0.3 * torch.rand(2, 2, 3, generator=g).double()
    mean = (weights * means).sum(0)
    aleatoric = (weights * variances).sum(0).sqrt()
    epistemic = (weights * (means - mean).square()).sum(0).sqrt()
    return LongTailed.of(Normals(mean, epistemic, aleatoric, weights, means, variances), TAIL)


def test_densities_integrate_to_one_and_moments_are_theirs(said: LongTailed) -> None:
    y = torch.linspace(-30, 30, 60_001, dtype=torch.float64)
    density = torch.stack([said.log_prob(each.expand(2, 3)).exp() for each in y])  # [Y, 2, 3]
    torch.testing.assert_close(torch.trapezoid(density, y, dim=0), torch.ones(2, 3).double(), rtol=1e-5, atol=0)
    mean = torch.trapezoid(density * y.view(-1, 1, 1), y, dim=0)
    torch.testing.assert_close(said.mean, mean, rtol=1e-3, atol=1e-3)
    variance = torch.trapezoid(density * (y.view(-1, 1, 1) - mean).square(), y, dim=0)
    torch.testing.assert_close(said.std, variance.sqrt(), rtol=1e-2, atol=1e-3)


def test_quantiles_are_where_the_distribution_function_says(said: LongTailed) -> None:
    levels = (0.025, 0.5, 0.975)
    for level, ends in zip(levels, said.quantiles(levels), strict=True):
        torch.testing.assert_close(said.cdf(ends), torch.full_like(ends, level), rtol=0, atol=1e-5)
    lower, upper = said.interval(0.95)
    torch.testing.assert_close(torch.stack([lower, upper]), torch.stack(said.quantiles((0.025, 0.975))))


def test_without_a_tail_it_is_the_normals_again(said: LongTailed) -> None:
    wanted = Normals(said.mean, said.epistemic_std, said.aleatoric_std, said.weights, said.means, said.variances)
    y = torch.rand(2, 3).double()
    torch.testing.assert_close(said.log_prob(y)[:, 2], wanted.log_prob(y)[:, 2])
    torch.testing.assert_close(said.mean[:, 2], (said.weights * said.means).sum(0)[:, 2])
    torch.testing.assert_close(said.interval()[0][:, 2], wanted.interval()[0][:, 2], rtol=1e-5, atol=1e-6)


def test_rows_after_rows(said: LongTailed) -> None:
    both = joined([said, said])
    assert isinstance(both, LongTailed)
    torch.testing.assert_close(both.interval()[0], torch.cat([said.interval()[0]] * 2))


def test_values_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match="signs of 1 or −1, a above zero and U not below, got .*; fit again"):
        LongTail(torch.tensor([[1.0], [0.0], [0.0], [1.0]]))
