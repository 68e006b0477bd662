"""Functions drawn from a posterior, as a posterior of BoTorch: the same functions wherever they are looked at."""

import torch
from botorch.posteriors import Posterior
from botorch.posteriors.ensemble import EnsemblePosterior
from botorch.sampling.base import MCSampler
from botorch.sampling.get_sampler import GetSampler
from jaxtyping import Float64
from torch import Tensor


class FunctionsPosterior(EnsemblePosterior):
    """The values [*b, S, q, m] of S functions at q points: joint over points and over calls.

    Args:
        values: Their values.
        weights: Of the functions; all alike by default.

    Example:
        >>> import torch
        >>> from actgp.botorch import DeepGPModel
        >>> X = torch.rand(8, 2, dtype=torch.float64)
        >>> model = DeepGPModel(X, X.sum(-1, keepdim=True), num_functions=64)
        >>> model.posterior(X).values.shape
        torch.Size([64, 8, 1])
    """


class FunctionsSampler(MCSampler):
    """Takes the functions one after the other, each as often as the others; again from the first after the last.

    So that a sample is the same function at every point of every batch, which acquisition functions such as qLogNEI
    compare with its values elsewhere.

    Args:
        sample_shape: How many functions to take.
        seed: Of no meaning here: nothing is drawn.

    Example:
        >>> import torch
        >>> from actgp.botorch import DeepGPModel, FunctionsSampler
        >>> X = torch.rand(8, 2, dtype=torch.float64)
        >>> model = DeepGPModel(X, X.sum(-1, keepdim=True), num_functions=64)
        >>> FunctionsSampler(torch.Size([16]))(model.posterior(X)).shape
        torch.Size([16, 8, 1])
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
