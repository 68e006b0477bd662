"""GPyTorch's own test of kernels, with zonal kernels; and what its users build of kernels."""

from collections.abc import Sequence

import gpytorch
import pytest
import torch
from every_kernel import KERNELS
from gpytorch.test.base_kernel_test_case import BaseKernelTestCase
from torch import Tensor

import actgp


class Contract(BaseKernelTestCase):
    """Zonal kernels are made for a number of inputs: that of the columns asked for, and two by default."""

    columns = 2
    kind: type[actgp.ZonalKernel] = actgp.ArcCosine

    def create_kernel_no_ard(self, active_dims: Sequence[int] | None = None, **arguments: object) -> actgp.ZonalKernel:
        if active_dims is not None:
            self.columns = len(active_dims)  # what follows is compared with this
        return self.kind(self.columns, active_dims=active_dims, **arguments)

    def create_kernel_ard(self, num_dims: int, **arguments: object) -> actgp.ZonalKernel:
        return self.kind(num_dims, **arguments)


CHECKS = sorted(name for name in dir(Contract) if name.startswith("test_"))


@pytest.mark.parametrize("kind", [actgp.ArcCosine, actgp.ZonalMatern, actgp.ZonalRBF], ids=lambda k: k.__name__)
@pytest.mark.parametrize("check", CHECKS)
def test_gpytorchs_own_contract(kind: type[actgp.ZonalKernel], check: str) -> None:
    case = Contract()
    case.kind = kind
    getattr(case, check)()


class Exact(gpytorch.models.ExactGP):
    def __init__(self, X: Tensor, y: Tensor, kernel: gpytorch.kernels.Kernel) -> None:
        super().__init__(X, y, gpytorch.likelihoods.GaussianLikelihood())
        self.kernel = kernel
        self.double()

    def forward(self, X: Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(torch.zeros(len(X)).double(), self.kernel(X))


@pytest.fixture
def X(generator: torch.Generator) -> Tensor:
    return torch.rand(30, 2, dtype=torch.float64, generator=generator)


@pytest.mark.parametrize("name", list(KERNELS))
def test_sums_products_and_fast_variances(name: str, X: Tensor) -> None:
    kernel = gpytorch.kernels.ScaleKernel(KERNELS[name](2) + gpytorch.kernels.RBFKernel()) * KERNELS[name](2)
    model = Exact(X, torch.sin(3 * X[:, 0]), kernel).eval()
    at = X[:7] / 2
    exact = model(at)
    parts = kernel.kernels[0].base_kernel.kernels
    expected = (
        kernel.kernels[0].outputscale * sum(part(at).to_dense() for part in parts) * kernel.kernels[1](at).to_dense()
    )
    torch.testing.assert_close(kernel(at).to_dense(), expected)
    with gpytorch.settings.fast_pred_var():
        fast = model.train().eval()(at)
    torch.testing.assert_close(fast.variance, exact.variance, rtol=1e-3, atol=1e-4)


def test_priors_and_training(X: Tensor) -> None:
    kernel = actgp.ArcCosine(2)
    kernel.register_prior("prior", gpytorch.priors.LogNormalPrior(0.0, 1.0), "lengthscale")
    model = Exact(X, torch.sin(3 * X[:, 0]), kernel)
    evidence = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    adam = torch.optim.Adam(model.parameters(), lr=0.1)
    values = []
    for _ in range(15):
        adam.zero_grad()
        loss = -evidence(model(X), model.train_targets)
        loss.backward()
        adam.step()
        values.append(loss.item())
    assert values[-1] < values[0]
    with_prior = evidence(model(X), model.train_targets)
    density = gpytorch.priors.LogNormalPrior(0.0, 1.0).log_prob(kernel.lengthscale).sum()
    alone = model.likelihood(model(X)).log_prob(model.train_targets)
    torch.testing.assert_close(with_prior, (alone + density) / len(X))


def test_gpytorchs_sparse_gp(X: Tensor, generator: torch.Generator) -> None:
    class Sparse(gpytorch.models.ApproximateGP):
        def __init__(self) -> None:
            q = gpytorch.variational.CholeskyVariationalDistribution(8)
            super().__init__(gpytorch.variational.VariationalStrategy(self, X[:8].clone(), q))
            self.kernel = actgp.ArcCosine(2)

        def forward(self, x: Tensor) -> gpytorch.distributions.MultivariateNormal:
            return gpytorch.distributions.MultivariateNormal(torch.zeros(len(x)).to(x), self.kernel(x))

    model, likelihood = Sparse().double(), gpytorch.likelihoods.GaussianLikelihood().double()
    bound = gpytorch.mlls.VariationalELBO(likelihood, model, len(X))
    y = torch.sin(3 * X[:, 0])
    adam = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=0.05)
    values = []
    for _ in range(20):
        adam.zero_grad()
        loss = -bound(model(X), y)
        loss.backward()
        adam.step()
        values.append(loss.item())
    assert values[-1] < values[0]
    assert all(p.grad is not None for p in model.kernel.parameters())


def test_gpytorchs_deep_gp(X: Tensor) -> None:
    """Kernels serve there, batched over outputs. A GPLayer does not: it gives marginals, and the model samples."""

    class Layer(gpytorch.models.deep_gps.DeepGPLayer):
        def __init__(self, outputs: int | None) -> None:
            batch = torch.Size([] if outputs is None else [outputs])
            q = gpytorch.variational.CholeskyVariationalDistribution(6, batch_shape=batch)
            points = X[:6].expand(*batch, 6, 2).clone()
            super().__init__(gpytorch.variational.VariationalStrategy(self, points, q), 2, outputs)
            self.kernel = actgp.ArcCosine(2, batch_shape=batch)

        def forward(self, x: Tensor) -> gpytorch.distributions.MultivariateNormal:
            return gpytorch.distributions.MultivariateNormal(torch.zeros(x.shape[:-1]).to(x), self.kernel(x))

    class Deep(gpytorch.models.deep_gps.DeepGP):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = Layer(2), Layer(None)

        def forward(self, x: Tensor) -> gpytorch.distributions.MultivariateNormal:
            return self.last(self.first(x))

    model, likelihood = Deep().double(), gpytorch.likelihoods.GaussianLikelihood().double()
    bound = gpytorch.mlls.DeepApproximateMLL(gpytorch.mlls.VariationalELBO(likelihood, model, len(X)))
    with gpytorch.settings.num_likelihood_samples(3):
        f = model(X)
        bound(f, torch.sin(3 * X[:, 0])).backward()
    assert f.mean.shape == (3, 30)
    assert all(torch.isfinite(p.grad).all() for layer in (model.first, model.last) for p in layer.kernel.parameters())
