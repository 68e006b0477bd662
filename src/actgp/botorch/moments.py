"""The posterior of a deep GP as a Gaussian with its mean and covariance."""

from typing import TYPE_CHECKING, Any

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import FantasizeMixin, Model
from botorch.posteriors import GPyTorchPosterior, Posterior
from gpytorch.distributions import MultitaskMultivariateNormal, MultivariateNormal
from gpytorch.likelihoods import Likelihood
from jaxtyping import Float64
from linear_operator import to_linear_operator
from torch import Tensor

from actgp.botorch.mixture import Mixture

if TYPE_CHECKING:
    from actgp.botorch.model import DeepGPModel


class MomentMatchedDeepGP(Model, FantasizeMixin):
    """What `DeepGPModel.moment_matched` gives: mean and covariance of the mixture over paths.

    Along each path the posterior is a Gaussian in closed form, and so only the average over paths is approximate.

    Args:
        deep: The model.
        mixtures: The posterior of each of its outcomes.

    Example:
        >>> import torch
        >>> from actgp.botorch import DeepGPModel
        >>> X = torch.rand(8, 2, dtype=torch.float64)
        >>> model = DeepGPModel(X, X.sum(-1, keepdim=True))
        >>> model.moment_matched().posterior(X).variance.shape
        torch.Size([8, 1])
    """

    def __init__(self, deep: "DeepGPModel", mixtures: tuple[Mixture, ...]) -> None:
        super().__init__()
        self.deep = deep
        self._mixtures = mixtures

    @property
    def num_outputs(self) -> int:
        return self.deep.num_outputs

    @property
    def batch_shape(self) -> torch.Size:
        found = self._mixtures[0]
        return torch.broadcast_shapes(found.H.shape[:-3], found.coefficients.shape[:-3])

    @property
    def likelihood(self) -> Likelihood:
        """The noise."""
        return self.deep.likelihood

    @property
    def train_inputs(self) -> tuple[Tensor]:
        """The inputs of the model."""
        return self.deep.train_inputs

    def posterior(
        self,
        X: Float64[Tensor, "*b q d"],
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> Posterior:
        """The Gaussian at X; arguments as for `DeepGPModel.posterior`."""
        deep = self.deep.eval()
        X = deep.transform_inputs(X)
        chosen = list(range(self.num_outputs)) if output_indices is None else output_indices
        found = [self._mixtures[i].moments(X) for i in chosen]
        variance = deep.noise_at(found[0][0], chosen, observation_noise)
        gaussians = []
        for j, (mean, covariance) in enumerate(found):
            noise = 0.0 if variance is None else torch.diag_embed(variance[..., j].expand_as(mean))
            # lazily: gpytorch then decomposes it with jitter, where points are close together
            gaussians.append(MultivariateNormal(mean, to_linear_operator(covariance + noise)))
        joint = gaussians[0] if len(chosen) == 1 else MultitaskMultivariateNormal.from_independent_mvns(gaussians)
        posterior: Posterior = GPyTorchPosterior(joint)
        if (transform := deep.outcome_transform_of(output_indices)) is not None:
            posterior = transform.untransform_posterior(posterior, X=X)
        return posterior if posterior_transform is None else posterior_transform(posterior)

    def subset_output(self, idcs: list[int]) -> "MomentMatchedDeepGP":
        """The model of some outcomes."""
        return MomentMatchedDeepGP(self.deep.subset_output(idcs), tuple(self._mixtures[i] for i in idcs))

    def condition_on_observations(
        self, X: Float64[Tensor, "*b q d"], Y: Float64[Tensor, "*y q m"], noise: Tensor | None = None, **kwargs: Any
    ) -> "MomentMatchedDeepGP":
        """The posterior after more rows, as `DeepGPModel.condition_on_observations`."""
        return MomentMatchedDeepGP(self.deep, self.deep.observing(self._mixtures, X, Y, noise))

    def transform_inputs(self, X: Tensor, input_transform: torch.nn.Module | None = None) -> Tensor:
        """Inputs as the model sees them."""
        return self.deep.transform_inputs(X, input_transform)
