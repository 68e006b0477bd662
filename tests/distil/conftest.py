"""Small models that are fitted once, and their students."""

import pytest
import torch
from gpytorch.likelihoods import SoftmaxLikelihood
from torch import Tensor

import actgp

QUICK = actgp.Recipe(network_steps=100, num_steps=30, validation=0.0, use_all_rows=False)


@pytest.fixture(scope="session")
def rows() -> Tensor:
    return torch.randn(300, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.fixture(scope="session")
def deep(rows: Tensor) -> actgp.DeepGP:
    g = torch.Generator().manual_seed(1)
    y = torch.sin(2 * rows[:, 0]) + rows[:, 1] + 0.1 * torch.randn(300, generator=g, dtype=torch.float64)
    model = actgp.deep_gp(3, num_layers=2, num_inducing=16, generator=g).double()
    actgp.fit(model, rows, y, QUICK, generator=g, progress=False)
    return model


@pytest.fixture(scope="session")
def student(deep: actgp.DeepGP, rows: Tensor) -> actgp.Student:
    return actgp.distill(deep, rows, num_places=3_000, num_steps=400)


@pytest.fixture(scope="session")
def classifier(rows: Tensor) -> actgp.DeepGP:
    g = torch.Generator().manual_seed(1)
    likelihood = SoftmaxLikelihood(num_classes=3, num_features=3, mixing_weights=False)
    layers = actgp.Layers(horizon=30.0)
    model = actgp.deep_gp(3, 3, 2, 16, likelihood=likelihood, layers=layers, generator=g).double()
    labels = torch.bucketize(rows[:, 0] + rows[:, 1], torch.tensor([-0.5, 0.5], dtype=torch.float64))
    actgp.fit(model, rows, labels, QUICK, generator=g, progress=False)
    return model
