"""Exact GP regression, on gpytorch's ExactGP."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, ClassVar

import torch
from gpytorch import settings
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.models import ExactGP
from jaxtyping import Float, Float64
from torch import Tensor

from actgp import checks
from actgp.layers import check_kernel
from actgp.likelihoods import gaussian, targets
from actgp.models.prediction import Prediction
from actgp.persistence import Sizes, savable, save


@savable
class GPR(ExactGP):
    """y = f(x) + noise, f ~ GP(0, k), without approximation, at a cost of N³. Computes in float64.

    Also a gpytorch model: in evaluation mode `model(X)` is the joint posterior of f. Kernel and likelihood are
    converted to float64.

    Args:
        X: Inputs, [N, D].
        y: Targets, [N] or [N, P].
        kernel: The prior's kernel, shared by all outputs.
        likelihood: A `gpytorch.likelihoods.GaussianLikelihood`; one is made if none is given.

    Example:
        >>> import actgp, torch
        >>> X = torch.linspace(-2, 2, 30, dtype=torch.float64)[:, None]
        >>> y = torch.sin(X[:, 0])
        >>> model = actgp.GPR(X, y, actgp.ArcCosine(input_dim=1))
        >>> result = actgp.fit(model)
        >>> lower, upper = model.predict(X).interval(0.9)
    """

    SIZES: ClassVar[Sizes] = {"X": ("rows", "columns"), "y": ("rows", "outputs")}

    def __init__(
        self, X: Float[Tensor, "N D"], y: Tensor, kernel: Kernel, likelihood: GaussianLikelihood | None = None
    ) -> None:
        check_kernel(kernel)
        columns = checks.tensor(X, "X").shape[-1] if kernel.active_dims is not None else kernel.ard_num_dims
        checks.inputs(X, columns or max(1, checks.tensor(X, "X").shape[-1]))
        likelihood = gaussian(likelihood)
        num_outputs = y.shape[-1] if isinstance(y, Tensor) and y.ndim == 2 else 1
        y = targets(likelihood, y, len(X), num_outputs, torch.float64)
        # gpytorch keeps several outputs as a batch: inputs [P, N, D], targets [P, N].
        batch = () if num_outputs == 1 else (num_outputs,)
        super().__init__(X.double().expand(*batch, *X.shape), y.T.reshape(*batch, len(X)), likelihood)
        self.kernel = kernel
        self.double()

    def forward(self, X: Float64[Tensor, "*batch N D"]) -> MultivariateNormal:
        """The prior of f at X."""
        return MultivariateNormal(torch.zeros(X.shape[:-1]).to(X), self.kernel(X))

    def log_evidence(self) -> Float64[Tensor, ""]:
        """Log p(y), summed over outputs."""
        with _exactly():
            marginal = self.likelihood(self.forward(*self.train_inputs))
            log_prob: Tensor = marginal.log_prob(self.train_targets)
        return log_prob.sum()

    @torch.no_grad()
    def predict(self, X: Float[Tensor, "N D"]) -> Prediction:
        """The predictive distribution at each input."""
        checks.inputs(X, self.train_inputs[0].shape[-1])
        self.train()  # drops gpytorch's cache, which does not notice that parameters have changed
        self.eval()
        with _exactly():
            f = self(X.to(self.train_inputs[0]).expand(*self.train_inputs[0].shape[:-2], *X.shape))
            mean, variance = f.mean, f.variance
        shape = (1, -1, len(X))  # [1, P, N]
        mean, variance = (values.reshape(shape).mT.to(X.dtype) for values in (mean, variance))
        return Prediction(checks.predicted(mean, X), variance, self.likelihood)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model and its data to a file, all at once; `actgp.load` reads it."""
        save(self, path)

    def config(self) -> dict[str, Any]:
        """The arguments of its constructor, for files (`persistence`)."""
        X, y = self.train_inputs[0], self.train_targets
        N, D = X.shape[-2:]
        data = {"X": X.reshape(-1, N, D)[0], "y": y.reshape(-1, N).T}
        return {**data, "kernel": self.kernel, "likelihood": self.likelihood}


@contextmanager
def _exactly() -> Iterator[None]:
    """Cholesky at every size, and jitter until it succeeds, instead of gpytorch's iterative solvers."""
    with ExitStack() as stack:
        stack.enter_context(settings.fast_computations(False, False, False))
        stack.enter_context(settings.cholesky_max_tries(12))
        stack.enter_context(settings.debug(False))  # predicting at the training inputs is no mistake
        yield
