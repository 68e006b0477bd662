"""Functions drawn from a posterior, as a posterior of BoTorch: the same functions wherever they are looked at."""

import torch
from botorch.posteriors import Posterior
from botorch.posteriors.ensemble import EnsemblePosterior
from botorch.sampling.base import MCSampler
from botorch.sampling.get_sampler import GetSampler
from jaxtyping import Float64
from torch import Tensor


class FunctionsPosterior(EnsemblePosterior):
    """The values [*b, S, q, m] of S functions at q points: joint over points and over calls."""


class FunctionsSampler(MCSampler):
    """Takes the functions one after the other, each as often as the others; again from the first after the last.

    So that a sample is the same function at every point of every batch, which acquisition functions such as qLogNEI
    compare with its values elsewhere.
    """

    def forward(self, posterior: FunctionsPosterior) -> Float64[Tensor, "*samples q m"]:
        """Values of the chosen functions."""
        shape = self.sample_shape
        index = torch.arange(shape.numel(), device=posterior.device) % posterior.ensemble_size
        chosen = posterior.values.movedim(-3, 0)[index]
        return chosen.unflatten(0, shape)

    def _update_base_samples(self, posterior: Posterior, base_sampler: MCSampler) -> None:
        """There are none to update."""


@GetSampler.register(FunctionsPosterior)  # type: ignore[untyped-decorator]
def _functions_sampler(
    posterior: FunctionsPosterior, sample_shape: torch.Size, *, seed: int | None = None
) -> FunctionsSampler:
    return FunctionsSampler(sample_shape=sample_shape, seed=seed)
