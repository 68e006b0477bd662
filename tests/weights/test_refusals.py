import pytest
import torch
from gpytorch.likelihoods import SoftmaxLikelihood
from networks import data, mlp
from torch import nn

import actgp


def test_bad_inputs_are_refused() -> None:
    network = mlp()
    with pytest.raises(ValueError, match="X must have 3 columns, got 5"):
        actgp.convert_weights(network, data(D=5))
    with pytest.raises(ValueError, match="X must be finite, got 60 NaN"):
        actgp.convert_weights(network, torch.full((20, 3), torch.nan))
    with pytest.raises(ValueError, match="X must have at least one row"):
        actgp.convert_weights(network, data(0))
    with pytest.raises(ValueError, match=r"at least 10 rows, got \[9, 3\]; pass more data, or none"):
        actgp.convert_weights(network, data(9))
    with pytest.raises(TypeError, match="X must have the network's precision, float32, got float64; convert it"):
        actgp.convert_weights(network, data(dtype=torch.float64))
    with pytest.raises(TypeError, match="X must be a torch.Tensor, got list"):
        actgp.convert_weights(network, [[0.0, 0.0, 0.0]])  # type: ignore[arg-type]
    behind = nn.Sequential(nn.Linear(2, 3), nn.ELU(), *network)
    with pytest.raises(ValueError, match="X must be finite"):
        actgp.convert_weights(behind, torch.full((20, 2), torch.inf))
    with pytest.raises(ValueError, match=r"at least 10 rows, got \[20\]"):
        actgp.convert_weights(behind, torch.zeros(20))


def test_bad_options_are_refused() -> None:
    def refused(text: str, error: type[Exception] = ValueError, **options: object) -> None:
        with pytest.raises(error, match=text):
            actgp.convert_weights(mlp(), data(), **options)  # type: ignore[arg-type]

    refused("rank must be at least 1, got 0", rank=0)
    refused("rank must be at most 16, the narrowest hidden layer, got 17; lower it, or pass energy", rank=17)
    refused("energy must be at most 1, got 1.5; pass e.g. 0.99999", energy=1.5)
    refused("energy must be positive and finite, got 0.0", energy=0.0)
    refused("one of rank and energy must be given, got 2 and 0.9; leave one out", rank=2, energy=0.9)
    refused("kernel must be one of .*, got 'rbf'", kernel="rbf")
    refused("num_inducing must be at least 1, got 0", num_inducing=0)
    refused("num_levels must be at least 2, got 1", num_levels=1)
    refused("tolerance must be positive, got 0.0; pass e.g. 0.1, or inf to accept any", tolerance=0.0)
    refused("tolerance must be a number, got 'any'", TypeError, tolerance="any")
    refused("likelihood must be a gpytorch likelihood, got str", TypeError, likelihood="gaussian")
    softmax = SoftmaxLikelihood(num_classes=3, num_features=3, mixing_weights=False)
    refused("as many features as the network has outputs, got 3 and 1; pass", likelihood=softmax)


def test_a_mean_that_is_not_the_networks_is_refused() -> None:
    network, X = mlp(nn.GELU), data()
    poor = {"rank": 1, "num_inducing": 3}
    text = (
        r"to within 10% of their spread, got a mean that is [\d.]+% off on 60 rows not used for fitting; pass more rows"
    )
    with pytest.raises(ValueError, match=text) as refusal:
        actgp.convert_weights(network, X, **poor)  # type: ignore[arg-type]
    _, report = actgp.convert_weights(network, X, **poor, tolerance=float("inf"))  # type: ignore[arg-type]
    assert report.error > 0.1
    assert str(report) in str(refusal.value)
    assert actgp.convert_weights(network, X, **poor, tolerance=1.01 * report.error)[1] == report  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "x_size", "size"), [("X", 1e25, 1.0), ("the network's output", 1.0, 1e20)])
def test_what_is_too_large_to_be_squared_is_refused(name: str, x_size: float, size: float) -> None:
    network = nn.Sequential(nn.Linear(2, 4), nn.Softplus(), nn.Linear(4, 1))
    network[-1].weight.data.mul_(size)
    X = x_size * torch.linspace(-1, 1, 80).reshape(40, 2)
    with pytest.raises(ValueError, match=f"{name} must be at most .* in size, .*; standardise {name}"):
        actgp.convert_weights(network, X, num_inducing=5)
