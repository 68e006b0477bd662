"""Functions of a `DeepGPModel` for BoTorch's pathwise Thompson sampling: each along a path of its own."""

from typing import Any

import torch
from botorch.sampling.pathwise.paths import SamplePath
from botorch.sampling.pathwise.posterior_samplers import DrawMatheronPaths
from jaxtyping import Float64
from torch import Tensor

from actgp.botorch.mixture import condition
from actgp.botorch.model import DeepGPModel


class DeepGPPaths(SamplePath):
    """Functions drawn anew from the posterior, as many as a sample shape has elements.

    Args:
        model: The model, which must not have been conditioned on further observations.
        sample_shape: The sample shape.

    Example:
        >>> import torch
        >>> from actgp.botorch import DeepGPModel, DeepGPPaths
        >>> X = torch.rand(8, 2, dtype=torch.float64)
        >>> paths = DeepGPPaths(DeepGPModel(X, X.sum(-1, keepdim=True)), torch.Size([4]))
        >>> paths(X).shape
        torch.Size([4, 8])
    """

    def __init__(self, model: DeepGPModel, sample_shape: torch.Size) -> None:
        super().__init__()
        if model.is_conditioned:
            raise ValueError(
                "functions are drawn from a model of its training data, got one that was conditioned on further "
                "observations; build a DeepGPModel of all rows, and take the parameters over by warm_start"
            )
        self.model, self.sample_shape = model.eval(), sample_shape
        X, Y = model.train_inputs[0], model.train_targets.reshape(model.num_outputs, -1)
        number = sample_shape.numel()
        seeds = torch.randint(2**31, (model.num_outputs,)).tolist()
        self._mixtures = [
            condition(outcome, X, y, number, 1, seed) for outcome, y, seed in zip(model.outcomes, Y, seeds, strict=True)
        ]

    def forward(self, X: Float64[Tensor, "*b n d"]) -> Float64[Tensor, "*b n"]:
        """The values of each function at inputs of its own, X of [*b, *sample, n, d], or at the same, [n, d].

        For m outcomes, X is [*b, *sample, 1, n, d], and values are [*b, *sample, m, n]: BoTorch's convention.
        """
        several = len(self._mixtures) > 1
        X = self.model.transform_inputs(X.squeeze(-3) if several else X)
        shape = torch.broadcast_shapes(X.shape[:-2], self.sample_shape)  # [*b, *sample]
        batch = shape[: len(shape) - len(self.sample_shape)]
        X = X.expand(*shape, *X.shape[-2:]).reshape(*batch, self.sample_shape.numel(), *X.shape[-2:])
        values = torch.stack([m.functions_at(m.bent_in_pairs(X))[..., 1] for m in self._mixtures], -1)  # [*b, I, n, m]
        if (transform := self.model.outcome_transform_of(None)) is not None:
            values, _ = transform.untransform(values, X=X)
        values = values.reshape(*shape, *values.shape[-2:])
        return values.mT if several else values.squeeze(-1)

    def set_ensemble_as_batch(self, ensemble_as_batch: bool) -> None:
        """Of no meaning here: functions are no batch of models."""


@DrawMatheronPaths.register(DeepGPModel)  # type: ignore[untyped-decorator]
def _draw(model: DeepGPModel, *, sample_shape: torch.Size, **kwargs: Any) -> DeepGPPaths:
    return DeepGPPaths(model, sample_shape)
