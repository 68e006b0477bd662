"""GPyTorch's deep GP, as its tutorial builds it: hyper-parameters and inducing points for each output."""

from collections.abc import Callable
from itertools import pairwise

import gpytorch
import torch
from gpytorch.distributions import MultivariateNormal
from gpytorch.models.deep_gps import DeepGP, DeepGPLayer
from torch import Tensor

from benchmarks.problem import Problem


class Layer(DeepGPLayer):
    """RBF kernels with ARD; a linear mean inside, a constant one at the end."""

    def __init__(self, inputs: int, outputs: int | None, M: int) -> None:
        batch = torch.Size([] if outputs is None else [outputs])
        q = gpytorch.variational.CholeskyVariationalDistribution(M, batch_shape=batch)
        Z = torch.randn(*batch, M, inputs, generator=torch.Generator().manual_seed(0))
        strategy = gpytorch.variational.VariationalStrategy(self, Z, q, learn_inducing_locations=True)
        super().__init__(strategy, inputs, outputs)
        self.mean_module = (
            gpytorch.means.ConstantMean() if outputs is None else gpytorch.means.LinearMean(inputs, batch_shape=batch)
        )
        rbf = gpytorch.kernels.RBFKernel(batch_shape=batch, ard_num_dims=inputs)
        self.covar_module = gpytorch.kernels.ScaleKernel(rbf, batch_shape=batch, ard_num_dims=None)

    def forward(self, x: Tensor) -> MultivariateNormal:
        """The prior."""
        return MultivariateNormal(self.mean_module(x), self.covar_module(x))


class Model(DeepGP):
    """Layers, and Gaussian noise."""

    def __init__(self, problem: Problem) -> None:
        super().__init__()
        if problem.num_outputs != 1:
            raise ValueError(f"the tutorial's model has one output, got {problem.num_outputs}; leave num_outputs at 1")
        *hidden, last = pairwise(problem.widths)
        layers = [Layer(*size, problem.num_inducing) for size in hidden]
        self.layers = torch.nn.ModuleList([*layers, Layer(last[0], None, problem.num_inducing)])
        self.likelihood = gpytorch.likelihoods.GaussianLikelihood()

    def forward(self, x: Tensor) -> MultivariateNormal:
        """Layer after layer; hidden ones are sampled."""
        for layer in self.layers:
            x = layer(x)
        return x


def step(problem: Problem) -> Callable[[], None]:
    """ELBO, backward, Adam."""
    model, (X, y) = Model(problem), problem.minibatch()
    bound = gpytorch.mlls.VariationalELBO(model.likelihood, model, problem.num_data)
    objective = gpytorch.mlls.DeepApproximateMLL(bound)
    adam = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    model.train()

    def run() -> None:
        with gpytorch.settings.num_likelihood_samples(problem.num_samples):
            adam.zero_grad()
            (-objective(model(X), y[:, 0])).backward()
            adam.step()

    return run


def predict(problem: Problem) -> Callable[[], None]:
    """Mean and variance at many inputs, in batches, as in the tutorial."""
    model, X = Model(problem), problem.test_inputs()
    model.eval()

    @torch.no_grad()
    def run() -> None:
        with gpytorch.settings.num_likelihood_samples(problem.prediction_samples):
            for part in X.split(1_000):
                prediction = model.likelihood(model(part))
                assert prediction.mean.shape == prediction.variance.shape

    return run
