"""What a `DeepGPModel` is trained by, and how.

    E_q(v)[log N(y; c, K(v) + noise)] − Σ_ℓ KL(q(v_ℓ) ‖ p(v_ℓ)) + log p(θ)                               (`outcome`)

The expectation is taken over a few fixed paths, so that the bound is a function of the parameters, for L-BFGS.
"""

from collections.abc import Sequence
from math import inf, nan
from typing import TYPE_CHECKING, Any, cast

import torch
from botorch.optim.core import scipy_minimize
from botorch.optim.utils import get_parameters_and_bounds
from gpytorch.distributions import MultivariateNormal
from gpytorch.mlls import MarginalLogLikelihood
from jaxtyping import Float64
from torch import Tensor

from actgp.linalg import LogDensity

if TYPE_CHECKING:
    from actgp.botorch.model import DeepGPModel

COLD_STEPS, WARM_STEPS = 80, 30
EXACT_STEPS = 100


class DeepEvidence(MarginalLogLikelihood):
    """The bound, in nats for each row, of all outcomes together; for a single layer, the log evidence.

    Args:
        likelihood: That of the model.
        model: A `DeepGPModel`.

    Example:
        >>> import torch
        >>> from botorch.fit import fit_gpytorch_mll
        >>> from actgp.botorch import DeepEvidence, DeepGPModel
        >>> X = torch.rand(20, 2, dtype=torch.float64)
        >>> model = DeepGPModel(X, X.sum(-1, keepdim=True))
        >>> mll = fit_gpytorch_mll(DeepEvidence(model.likelihood, model))
    """

    model: "DeepGPModel"

    def forward(self, function_dist: MultivariateNormal, target: Tensor) -> Float64[Tensor, ""]:
        """The bound for what the model gives in training mode, batched over paths, and standardised targets."""
        outcomes = self.model.outcomes
        y = target.reshape(len(outcomes), 1, -1)  # [m, 1, N]
        noise = torch.stack([outcome.noise.expand(y.shape[-1]) for outcome in outcomes]).unsqueeze(1)
        shape = len(outcomes), -1, y.shape[-1]
        mean = function_dist.mean.reshape(shape)  # [m, S, N]
        K = function_dist.covariance_matrix.reshape(*shape, y.shape[-1])
        evidence = LogDensity.apply((y - mean).unsqueeze(-1), K + torch.diag_embed(noise)).mean(-1)  # [m]
        kl = torch.stack([outcome.kl() for outcome in outcomes])
        return ((evidence - kl).sum() + self._log_prior()) / y.shape[-1]

    def _log_prior(self) -> Tensor:
        found = [prior.log_prob(value(module)).sum() for _, module, prior, value, _ in self.model.named_priors()]
        return torch.stack(found).sum() if found else torch.zeros(())


def climb(model: "DeepGPModel", num_steps: int) -> None:
    """L-BFGS on the bound, to the best parameters that it has seen; steps to where there is no bound end it."""
    mll = DeepEvidence(model.likelihood, model).train()
    parameters, bounds = get_parameters_and_bounds(model, requires_grad=True)
    least, best = inf, [p.detach().clone() for p in parameters.values()]

    def descent() -> tuple[Tensor, Sequence[Tensor]]:
        nonlocal least, best
        nowhere = torch.full((), nan, dtype=torch.float64), [torch.zeros_like(p) for p in parameters.values()]
        if not all(p.isfinite().all() for p in parameters.values()):
            return nowhere
        try:
            loss = -mll(model(*model.train_inputs), model.train_targets)
        except ValueError:  # of a covariance that overflowed, or is singular
            return nowhere
        gradients = torch.autograd.grad(loss, list(parameters.values()), materialize_grads=True, allow_unused=True)
        if not all(values.isfinite().all() for values in (loss, *gradients)):
            return nowhere
        if loss < least:
            least, best = loss.item(), [p.detach().clone() for p in parameters.values()]
        return loss.detach(), [gradient.contiguous() for gradient in gradients]

    scipy_minimize(cast("Any", descent), parameters, bounds=bounds, options={"maxiter": num_steps})
    with torch.no_grad():
        for parameter, value in zip(parameters.values(), best, strict=True):
            parameter.copy_(value)
