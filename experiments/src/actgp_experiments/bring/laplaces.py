"""laplace-torch around a trained network (Daxberger et al., 2021), in ways that it documents for regression.

last layer, Kronecker  Gauss–Newton posteriors; prior precision and noise by the marginal likelihood
ELLA                   a Nyström basis of Jacobians (Deng et al., 2022); both by the likelihood of validation rows

VaLLA, its variational relative, is left out: the 100 steps of its documentation took 13 to 18 s around a network of
2 × 100 units on energy, and ended far above the network's own NLPD at learning rates of 1e-3, 1e-2 and 1e-1.
"""

import warnings
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.distributions import Normal
from torch.utils.data import DataLoader, TensorDataset

from actgp_experiments.baselines.last_layer_laplace import maximise_evidence, require_laplace
from actgp_experiments.bring.networks import Rows, squared_error
from actgp_experiments.bring.settings import BringSettings
from actgp_experiments.metrics import Predictive

BATCH = 500  # rows whose Jacobians are in memory
SMALLEST_NOISE = 1e-3  # standard deviation
MOST_JUDGED = 1_000  # validation rows that choose them for ELLA, which makes Jacobians anew each time
PRECISIONS = torch.logspace(-4, 4, 9)
NOISES = torch.linspace(0.2, 1.2, 11)  # relative to the network's error on validation rows


def loader(X: Tensor, y: Tensor) -> DataLoader[Any]:
    """Batches in order."""
    return DataLoader(TensorDataset(X, y), batch_size=BATCH)


class GaussNewton:
    """Of the last layer, or of all, by Kronecker factors.

    Prior precision and noise follow Adam on the marginal likelihood, as the documentation has it. With Kronecker
    factors laplace-torch 0.3 takes the noise in the log determinant for a constant (`math.pow` of a tensor): the
    gradient is another one, and Adam ends where the marginal likelihood is far from its maximum. It is kept as it is,
    since it is what users get, and since predictions at the maximum, found without gradients, were worse (on rows kept
    aside from the training rows of energy, concrete, yacht: NLPD .61, 1.62, 1.33 in place of −1.44, .32, −1.64).
    """

    def __init__(self, subset: str, structure: str) -> None:
        self.subset, self.structure = subset, structure

    @torch.enable_grad()
    def fit(self, network: nn.Module, rows: Rows, settings: BringSettings, seed: int) -> None:
        self.posterior: Any = require_laplace()(
            network, "regression", subset_of_weights=self.subset, hessian_structure=self.structure
        )
        self.posterior.fit(loader(rows.X_train, rows.y_train))
        log_noise = torch.ones(1, requires_grad=True)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Converting a tensor with requires_grad=True", UserWarning)
            maximise_evidence(self.posterior, log_noise, settings.evidence_steps)
        self.noise = log_noise.exp().item()

    def predict(self, X: Float[Tensor, "N D"]) -> Predictive:
        return _normal(self.posterior, X, self.noise)


class ELLA:
    """Prior precision and noise are those of a grid under which validation rows are likeliest."""

    def fit(self, network: nn.Module, rows: Rows, settings: BringSettings, seed: int) -> None:
        self.posterior: Any = require_laplace()(
            network,
            "regression",
            subset_of_weights="all",
            hessian_structure="gp",
            functional_approximation="nystrom",
            subsample_size=min(settings.basis, len(rows.X_train)),
            n_eigenvalues=settings.eigenvalues,
            seed=seed,
        )
        self.posterior.fit(loader(rows.X_train, rows.y_train))
        judged = loader(rows.X_validation[:MOST_JUDGED], rows.y_validation[:MOST_JUDGED])
        error = squared_error(network, rows.X_validation, rows.y_validation).sqrt().item()
        noises = [max(SMALLEST_NOISE, error * noise) for noise in NOISES.tolist()]
        grid = [(precision, noise) for precision in PRECISIONS.tolist() for noise in noises]
        self.posterior.optimize_hyperparameters(judged, grid)

    def predict(self, X: Float[Tensor, "N D"]) -> Predictive:
        return _normal(self.posterior, X, self.posterior.sigma_noise.item())


@torch.no_grad()
def _normal(posterior: Any, X: Float[Tensor, "N D"], noise: float) -> Predictive:
    """N(mean, Var[f] + σ²)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parts = [posterior(part) for part in X.split(BATCH)]
    mean = torch.cat([part[0].reshape(-1) for part in parts])
    variance = torch.cat([part[1].reshape(-1) for part in parts])
    return Normal(mean, (variance + noise**2).sqrt())
