"""Single-layer GPs with an exact objective, by L-BFGS in float64: exact regression, and Titsias' bound."""

import torch
from gpytorch.constraints import GreaterThan
from gpytorch.likelihoods import GaussianLikelihood
from jaxtyping import Float
from torch import Tensor
from torch.distributions import Normal

from actgp.features import InducingPoints
from actgp.kernels import ArcCosine
from actgp.models import GPR, SGPR
from actgp.training.fit import fit
from actgp.training.recipe import Recipe
from actgp_experiments.baselines.deep import inducing_inputs
from actgp_experiments.baselines.network import SMALLEST_VARIANCE
from actgp_experiments.baselines.predictor import Settings
from actgp_experiments.metrics import Predictive


class ShallowGP:
    """GPR or SGPR with the arc-cosine kernel.

    Args:
        settings: Inducing points and steps.
        seed: Of the inducing points.
        sparse: Whether to use inducing points; else all rows, up to `settings.largest_exact`.
    """

    def __init__(self, settings: Settings, seed: int, *, sparse: bool) -> None:
        self.settings, self.seed, self.sparse = settings, seed, sparse

    def fit(self, X: Float[Tensor, "N D"], y: Float[Tensor, " N"]) -> None:
        if not self.sparse and len(X) > self.settings.largest_exact:
            raise ValueError(
                f"exact regression is for at most {self.settings.largest_exact} rows, got {len(X)}; use sparse=True"
            )
        likelihood = GaussianLikelihood(noise_constraint=GreaterThan(SMALLEST_VARIANCE))
        X, y, kernel = X.double(), y.double(), ArcCosine(X.shape[1])
        if self.sparse:
            Z = inducing_inputs(X, self.settings.units, self.seed)
            self.model: GPR | SGPR = SGPR(X, y, kernel, InducingPoints(Z), likelihood)
        else:
            self.model = GPR(X, y, kernel, likelihood)
        fit(self.model, recipe=Recipe(num_steps=self.settings.exact_steps), progress=False)

    @torch.no_grad()
    def predict(self, X: Float[Tensor, "N D"]) -> Predictive:
        prediction = self.model.predict(X.double())
        return Normal(prediction.mean, prediction.variance.sqrt())
