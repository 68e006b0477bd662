import importlib

import pytest
import torch
from networks import data, mlp
from torch import Tensor, nn

import actgp

split = importlib.import_module("actgp.weights.split").split


class Functional(nn.Module):
    """Functional activations, dropout and a squeezed output."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(3, 8), nn.Linear(8, 8), nn.Linear(8, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = nn.functional.dropout(nn.functional.softplus(self.first(x), beta=2.0), 0.5, self.training)
        return self.last(torch.relu(self.second(h))).squeeze(-1)


class Residual(nn.Module):
    """Convolutions with a skip connection, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.fc = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 2))

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.norm(self.convolution(x))) + x
        return self.fc(torch.flatten(h, 1))


class Branching(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x if x.sum() > 0 else -x


def rebuilt(network: nn.Module, X: Tensor) -> Tensor:
    parts = split(network)
    return parts.head((X if parts.backbone is None else parts.backbone(X)).double())


def test_the_parts_make_up_the_network() -> None:
    X, images = data(20), torch.randn(20, 1, 2, 2, generator=torch.Generator().manual_seed(0))
    nested = nn.Sequential(nn.Sequential(nn.Linear(3, 5), nn.ELU()), nn.Sequential(*mlp(nn.GELU, (5, 6, 2))))
    flat = nn.Sequential(nn.Flatten(), *mlp(nn.ReLU, (4, 6, 2)))
    for network, inputs in ((nested, X), (flat, images), (Functional(), X), (Residual(), images)):
        network.eval()
        wanted = network(inputs).reshape(20, -1).double()
        torch.testing.assert_close(rebuilt(network, inputs), wanted, rtol=1e-5, atol=1e-5)


class Twice(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


class Restless(Functional):
    """Its dropout does not heed the mode."""

    def forward(self, x: Tensor) -> Tensor:
        return self.last(nn.functional.dropout(torch.relu(self.first(x)), 0.5))


def test_what_only_looks_like_a_part_of_a_head_is_none() -> None:
    with pytest.raises(ValueError, match="must end in a Linear layer, got Twice"):
        actgp.convert_weights(nn.Sequential(nn.Linear(3, 8), nn.ReLU(), Twice(8, 1)))
    with pytest.raises(ValueError, match="got a linear head"):
        actgp.convert_weights(Restless())


def test_what_stays_and_what_is_ignored_is_said() -> None:
    parts = split(nn.Sequential(nn.Linear(3, 5), nn.ELU(), nn.Dropout(), *mlp(widths=(5, 6, 1)), nn.Identity()))
    assert [type(module).__name__ for module in parts.backbone] == ["Linear", "ELU", "Dropout"]
    assert parts.reason == "ELU is not one of the activations ReLU, Softplus, SiLU, GELU, Tanh"
    assert parts.ignored == ("Identity",)
    assert not parts.backbone.training
    residual = split(Residual())
    assert residual.ignored == ("Dropout",)
    assert residual.reason == "call_function flatten is no part of a chain of Linear layers and activations"
    assert {name for name, _ in residual.backbone.named_children()} == {"convolution", "norm"}
    functional = split(Functional())
    assert functional.backbone is None
    assert functional.reason == ""
    assert [type(a).__name__ for a in functional.head.activations] == ["Softplus", "ReLU"]
    assert functional.head.activations[0].beta == 2.0


def test_a_converted_classifier_keeps_its_backbone() -> None:
    network = Residual().eval()
    images = torch.randn(200, 1, 2, 2, generator=torch.Generator().manual_seed(0))
    model, report = actgp.convert_weights(network, images)
    wanted = network(images)
    error = (model.mean(images) - wanted).square().mean().sqrt() / (wanted - wanted.mean(0)).square().mean().sqrt()
    assert error < 0.05
    assert "backbone: Conv2d, BatchNorm2d, because" in str(report)
    assert "ignored, as in evaluation mode: Dropout" in str(report)


def test_networks_that_cannot_be_converted_are_refused_by_name() -> None:
    def refused(network: object, error: type[Exception], text: str) -> None:
        with pytest.raises(error, match=text):
            actgp.convert_weights(network)  # type: ignore[arg-type]

    refused(torch.relu, TypeError, "network must be a torch.nn.Module, got builtin_function_or_method; wrap")
    refused(nn.Sequential(*mlp(), nn.Sigmoid()), ValueError, "must end in a Linear layer, got Sigmoid; remove what")
    refused(nn.Linear(3, 1), ValueError, "must have a hidden activation before its last Linear, got a linear head; use")
    elu = nn.Sequential(nn.Linear(3, 4), nn.ELU(), nn.Linear(4, 1))
    refused(elu, ValueError, "got a linear head; what comes before the last Linear: ELU is not one of the activations")
    twice = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1))
    refused(twice, ValueError, "Linear follows Linear without an activation")
    lazy = nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.Linear(4, 1))
    refused(lazy, ValueError, "every Linear must have weights, got an uninitialised lazy module; run the network")
    refused(mlp().half(), TypeError, "parameters must all be float32 or all float64, got float16; convert it")
    refused(nn.Sequential(nn.ReLU()), TypeError, "all be float32 or all float64, got no parameters; convert it")
    for name, number in (("weight", torch.nan), ("bias", torch.inf)):
        broken = mlp()
        with torch.no_grad():
            getattr(broken[2], name)[0] = number
        refused(
            broken, ValueError, rf"finite, got NaN or infinity in the {name} of a Linear of shape \[16, 16\]; train"
        )


def test_modules_that_cannot_be_traced_are_refused_with_the_reason() -> None:
    class Dynamic(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.branch = mlp(), Branching()

        def forward(self, x: Tensor) -> Tensor:
            return self.body(self.branch(x))

    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = mlp()

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return self.body(x + y)

    class Sine(Two):
        def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
            return torch.sin(self.body(x))

    with pytest.raises(
        ValueError, match="Dynamic must be a module that torch.fx can trace, got TraceError: .*; pass an"
    ):
        actgp.convert_weights(Dynamic())
    with pytest.raises(
        ValueError, match="Two must take one tensor and return one, got 2 inputs, Node as output; pass an"
    ):
        actgp.convert_weights(Two())
    with pytest.raises(ValueError, match="Sine must end in a Linear layer, got call_function .*sin.*; pass an nn.Seq"):
        actgp.convert_weights(Sine())
