"""Fixed series by Horner's rule: as accurate as the recurrence, with fewer terms, where they may be summed so."""

import pytest
import torch

import actgp
from actgp.sphere import polynomial

CPU = torch.device("cpu")
SMOOTH = {"softplus": actgp.Softplus(1.0), "sharp": actgp.Softplus(5.0), "gelu": actgp.GELU(), "tanh": actgp.Tanh()}


@pytest.mark.parametrize("dimension", [2, 9, 129, 1025])
@pytest.mark.parametrize("name", [*SMOOTH, "relu"])
def test_values_and_slopes_are_right_to_the_last_digits(name: str, dimension: int, dtype: torch.dtype) -> None:
    activation = SMOOTH.get(name, actgp.ReLU())
    energies = activation.energies(dimension, 20)
    t = torch.linspace(-1, 1, 101, dtype=torch.float64).to(dtype)
    f = polynomial(tuple(energies.tolist()), dimension, dtype, CPU)
    exact_t = t.double()
    basis = actgp.normalised_gegenbauer(exact_t, dimension, 20)
    size = energies.abs().sum().item()
    eps = torch.finfo(dtype).eps
    assert (f(t).double() - basis @ energies).abs().max().item() < 20 * eps * size
    value, slope = f.with_slope(t)
    torch.testing.assert_close(value, f(t), rtol=0, atol=10 * eps * size)
    n = torch.arange(1, 20, dtype=torch.float64)  # P_n' = n (n+d−2)/(d−1) P_{n−1} in dimension d + 2
    factors = n * (n + dimension - 2) / (dimension - 1) * energies[1:]
    expected = actgp.normalised_gegenbauer(exact_t, dimension + 2, 19) @ factors
    assert (slope.double() - expected).abs().max().item() < 100 * eps * factors.abs().sum().item()


def test_powers_are_left_alone_where_they_lose_digits() -> None:
    rough = polynomial(tuple(actgp.ReLU().energies(3, 40).tolist()), 3, torch.float64, CPU)
    assert rough.powers is None
    smooth = polynomial(tuple(actgp.Softplus(1.0).energies(9, 40).tolist()), 9, torch.float32, CPU)
    assert smooth.powers is not None
    assert [len(terms) for terms in smooth.powers] == [5, 1]  # of 20 even and 20 odd levels
