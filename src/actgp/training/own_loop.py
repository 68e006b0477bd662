"""The ELBO for a training loop of one's own, with steps that are recorded as those of `fit` are."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from actgp import checks
from actgp.autocast import full_precision
from actgp.likelihoods import targets
from actgp.models import DeepGP, has_priors
from actgp.training.compiled import check_compilable, compiled
from actgp.training.objectives import Evaluation, objective_along
from actgp.training.recipe import Recipe
from actgp.training.recording import RecordedObjective, replayable
from actgp.training.replay import RECORD_AFTER, replayed


class RecordedELBO:
    """`model.elbo`, faster: value and gradients are found together, by operations that are recorded once.

    Where no parameter wants a gradient, or X or y want one, it is `model.elbo` itself. Once a part of the model has
    been replaced, nothing is recorded any more.

    Args:
        model: A model of the library's own layers, features, kernels and activations, without a backbone, with Gaussian
            noise, with or without outliers.
        num_data: N, the rows of the whole data set.
        num_samples: S, how many paths are sampled through the hidden layers.
        compile: Whether steps are compiled, from the first minibatch of a shape on; else they are replayed, after
            minibatches of one shape have come 100 times.
    """

    def __init__(self, model: DeepGP, num_data: int, num_samples: int = 1, *, compile: bool = False) -> None:
        if not isinstance(model, DeepGP):
            raise TypeError(f"model must be a DeepGP, got {type(model).__name__}; build one with actgp.deep_gp")
        if has_priors(model):
            raise ValueError(
                "steps are recorded for models without priors on parameters, got some; use model.elbo, and add "
                "actgp.log_prior(model)"
            )
        if not replayable(model):
            raise ValueError(
                "steps are recorded for Gaussian noise and the library's own layers, features, kernels and activations "
                "that are not learnt, without a backbone, got a model with something else; use model.elbo"
            )
        if compile:
            check_compilable(model)
        self.model = model
        self._num_data = checks.integer(num_data, "num_data", minimum=1)
        self._recipe = Recipe(objective="elbo", num_samples=checks.integer(num_samples, "num_samples", minimum=1))
        self.objective = RecordedObjective(
            model, self._along, compiled if compile else replayed, 0 if compile else RECORD_AFTER
        )

    @full_precision
    def __call__(self, X: Tensor, y: Tensor, *, generator: torch.Generator | None = None) -> Float[Tensor, ""]:
        """The evidence lower bound for the whole data set, unbiased, from a minibatch of it.

        Args:
            X: A minibatch of inputs.
            y: Its targets: [B], or [B, P].
            generator: Source of randomness.
        """
        model, num_samples = self.model, self._recipe.num_samples
        free = torch.is_grad_enabled() and any(p.requires_grad for p in model.parameters())
        if not free or any(isinstance(given, Tensor) and given.requires_grad for given in (X, y)):
            return model.elbo(X, y, self._num_data, num_samples, generator=generator)
        X = _at_the_beginning(model.check_inputs(X))
        checks.integer(self._num_data, "num_data", minimum=len(X))
        y = _at_the_beginning(targets(model.likelihood, y, len(X), model.num_outputs, X.dtype))
        y = y.clone() if y.untyped_storage().data_ptr() == X.untyped_storage().data_ptr() else y
        found = self.objective(X, y, *model.noises(X, num_samples, generator=generator))
        if found.known is None:
            return -found.loss
        parameters, gradients = found.known
        return Known.apply(-found.loss, gradients, *parameters)

    def _along(self, X: Tensor, y: Tensor, *noises: Tensor) -> Evaluation:
        return objective_along(self.model, X, y, noises, self._num_data, self._recipe, 1.0, with_priors=False)


class Known(torch.autograd.Function):
    """A value whose negative has known gradients with respect to parameters."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, gradients: Sequence[Tensor], *parameters: Tensor) -> Tensor:
        ctx.save_for_backward(*gradients)
        return value.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "a recorded ELBO can be differentiated once, got a request for second derivatives (create_graph=True); "
                "use model.elbo"
            )
        gradients = ctx.saved_tensors
        if grad.device.type == "cpu" and grad.item() == -1.0:  # as in nearly every loop: nothing to multiply
            return None, None, *gradients
        return None, None, *torch._foreach_mul(gradients, -grad)


def _at_the_beginning(rows: Tensor) -> Tensor:
    """Of their memory: recordings are for one place there, and slices of a data set are at many."""
    return rows.clone() if rows.storage_offset() or not rows.is_contiguous() else rows
