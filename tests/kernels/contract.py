"""What every zonal kernel must do. A new kernel's test is one call."""

import gpytorch
import torch
from torch.autograd import gradcheck

import actgp


def check_kernel(kernel: actgp.ZonalKernel, *, series_levels: int, series_error: float) -> None:
    """Runs the contract; `kernel` has three inputs and its series to `series_levels` is right to `series_error`."""
    kernel = kernel.double()
    g = torch.Generator().manual_seed(0)
    X = torch.randn(12, 3, dtype=torch.float64, generator=g)
    Z = torch.randn(5, 3, dtype=torch.float64, generator=g)
    kernel.lengthscale = torch.tensor([0.5, 1.0, 2.0])
    kernel.variance = 1.7
    _check_definition(kernel, X, Z)
    _check_mercer(kernel, series_levels, series_error)
    _check_gradients(kernel, X, Z)
    _check_gpytorch(kernel, X, Z)
    _check_precision(kernel, X)


def _check_definition(kernel: actgp.ZonalKernel, X: torch.Tensor, Z: torch.Tensor) -> None:
    K = kernel(X, Z).to_dense()
    for i, j in ((0, 0), (3, 4), (11, 2)):
        x = torch.cat([X[i] / kernel.lengthscale[0], torch.ones(1)])
        z = torch.cat([Z[j] / kernel.lengthscale[0], torch.ones(1)])
        t = (x @ z) / (x.norm() * z.norm())
        torch.testing.assert_close(K[i, j], kernel.variance * x.norm() * z.norm() * kernel.shape(t))
    torch.testing.assert_close(kernel(X).to_dense().diagonal(), kernel(X, diag=True), rtol=1e-13, atol=0)
    torch.testing.assert_close(kernel(X[:5], Z, diag=True), kernel(X[:5], Z).to_dense().diagonal(), rtol=1e-12, atol=0)
    assert abs(kernel.shape(torch.ones(1, dtype=torch.float64)).item() - 1) < 1e-14
    assert torch.linalg.eigvalsh(kernel(X).to_dense()).min() > -1e-12


def _check_mercer(kernel: actgp.ZonalKernel, levels: int, error: float) -> None:
    energies = kernel.energies(kernel.dimension, levels)
    assert energies.dtype == torch.float64
    assert (energies >= 0).all()
    t = torch.linspace(-1, 1, 101, dtype=torch.float64)
    torch.testing.assert_close(actgp.zonal_series(t, energies, kernel.dimension), kernel.shape(t), rtol=0, atol=error)


def _check_gradients(kernel: actgp.ZonalKernel, X: torch.Tensor, Z: torch.Tensor) -> None:
    x, z = X[:3].clone().requires_grad_(), Z[:2].clone().requires_grad_()
    assert gradcheck(lambda x, z: kernel(x, z).to_dense(), (x, z))
    # At coincident inputs: gradients of both orders are finite, and dk(x, x)/dx = 2 v x / ℓ² since k(x, x) = v r².
    same = X[:3].clone().requires_grad_()
    (gradient,) = torch.autograd.grad(kernel(same, same).to_dense().diagonal().sum(), same, create_graph=True)
    torch.testing.assert_close(gradient, 2 * kernel.variance * same / kernel.lengthscale**2)
    (second,) = torch.autograd.grad(gradient.sum(), same, retain_graph=True)
    assert torch.isfinite(second).all()
    (of_all,) = torch.autograd.grad(kernel(same, X[:3]).to_dense().sum(), same, create_graph=True)
    assert torch.isfinite(of_all).all()
    assert torch.isfinite(torch.autograd.grad(of_all.sum(), same)[0]).all()


def _check_gpytorch(kernel: actgp.ZonalKernel, X: torch.Tensor, Z: torch.Tensor) -> None:
    """Usable in a plain ExactGP, scaled, and as a batch."""

    class Model(gpytorch.models.ExactGP):
        def __init__(self) -> None:
            super().__init__(X, X.sum(-1), gpytorch.likelihoods.GaussianLikelihood().double())
            self.covariance = gpytorch.kernels.ScaleKernel(kernel).double()

        def forward(self, x: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
            return gpytorch.distributions.MultivariateNormal(torch.zeros(len(x)).double(), self.covariance(x))

    model = Model()
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    mll(model(X), model.train_targets).backward()
    assert kernel.raw_lengthscale.grad.abs().min() > 0
    kernel.zero_grad()
    assert torch.isfinite(model.eval()(Z).variance).all()

    batch = kernel.expand_batch(torch.Size([2]))
    assert batch.variance.shape == (2,)
    torch.testing.assert_close(batch(X).to_dense(), kernel(X).to_dense().expand(2, -1, -1))
    torch.testing.assert_close(batch(X, diag=True), kernel(X, diag=True).expand(2, -1))
    torch.testing.assert_close(batch[1](X, Z).to_dense(), kernel(X, Z).to_dense())
    assert not kernel.is_stationary


def _check_precision(kernel: actgp.ZonalKernel, X: torch.Tensor) -> None:
    expected = kernel(X).to_dense()
    single = kernel.float()(X.float()).to_dense()
    assert single.dtype == torch.float32
    # Close to t = 1 a rough shape feels the square root of round-off.
    torch.testing.assert_close(single.double(), expected, rtol=2e-3, atol=1e-5)
    kernel.double()
