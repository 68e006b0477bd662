"""A step as a recorded function: loss, objective and all gradients, for one shape of minibatch.

What an eager step does besides arithmetic, it does again in every step: Python, automatic differentiation, checks. Here
its operations, those of the gradients included, are recorded once; from then on they are replayed as they are
(`replay`), or what TorchInductor has made of them is called (`compiled`).

Where values decide (the precision of Kuf, a Cholesky decomposition that wants more jitter), a recording does not look
at them: that happens every 100 steps, or when a loss is not finite.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from math import isfinite
from typing import Any, Protocol

import torch
from gpytorch.likelihoods import GaussianLikelihood
from torch import Tensor, fx, nn
from torch.fx.experimental.proxy_tensor import make_fx

from actgp.features import ActivatedFeatures, DecoupledFeatures
from actgp.layers import GPLayer
from actgp.layers.network import without_points
from actgp.likelihoods import ContaminatedGaussianLikelihood
from actgp.models import DeepGP
from actgp.tracing import Decisions, traced
from actgp.training.objectives import Evaluation

LOOK_EVERY = 100  # steps between looks at what values decide

Objective = Callable[..., Evaluation]  # of X, y and noises
Function = Callable[..., Sequence[Tensor]]  # of the same: loss, objective, gradients


class Maker(Protocol):
    """Makes a function of inputs from one of parameters and inputs that was recorded."""

    def __call__(self, recorded: fx.GraphModule, parameters: Sequence[Tensor], inputs: Sequence[Tensor]) -> Function:
        """For parameters that stay where they are in memory."""


class RecordedObjective:
    """Called like the objective that it is made of.

    Args:
        model: The model.
        objective: A function of X, y and noises which does not draw.
        make: What is done with a recording.
        after: How often minibatches of one shape go through the objective itself before it is recorded for them.
    """

    def __init__(self, model: DeepGP, objective: Objective, make: Maker, after: int = 0) -> None:
        self.model, self.objective, self.make, self.after = model, objective, make, after
        self.functions: dict[Hashable, tuple[Function, list[Tensor]]] = {}
        self.seen: Counter[Hashable] = Counter()
        self.steps = 0
        self.decisions, self.parameters = Decisions(exact=False), dict[str, nn.Parameter]()

    def __call__(self, *inputs: Tensor) -> Evaluation:
        if self.steps % LOOK_EVERY == 0:
            self.decisions, self.parameters = _decide(self.model), dict(self.model.named_parameters())
        self.steps += 1
        places = [p.data_ptr() if p.requires_grad else None for p in self.parameters.values()]
        layouts = [(x.shape, x.stride(), x.storage_offset(), x.dtype) for x in inputs]
        key = self.decisions, *places, *layouts
        if key not in self.functions:
            self.seen[key] += 1
            if self.seen[key] <= self.after:
                return self.objective(*inputs)
            self.functions[key] = self._record(inputs)
        function, learnt = self.functions[key]
        loss, objective, *gradients = function(*inputs)
        if not isfinite(loss.item()):  # a Cholesky decomposition that needs more jitter
            return self.objective(*inputs)
        return Evaluation(KnownGradient.apply(loss, gradients, *learnt), objective)

    def _record(self, inputs: tuple[Tensor, ...]) -> tuple[Function, list[Tensor]]:
        """A function of the inputs, and the parameters whose gradients it finds."""
        learnt = {name: p for name, p in self.parameters.items() if p.requires_grad}
        self.objective(*inputs)  # what is prepared at the first use is not to be recorded
        module, number = _AsModule(self.model, self.objective), len(learnt)

        def step(*tensors: Tensor) -> tuple[Tensor, ...]:
            leaves = [value.detach().requires_grad_() for value in tensors[:number]]
            swapped = {f"model.{name}": leaf for name, leaf in zip(learnt, leaves, strict=True)}
            with torch.enable_grad():
                loss, objective = torch.func.functional_call(module, swapped, tensors[number:])
                gradients = torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)
            return loss.detach(), objective.detach(), *gradients

        parameters = [p.detach() for p in learnt.values()]
        with traced(self.decisions), torch.no_grad():
            recorded = make_fx(step)(*parameters, *inputs)
        return self.make(recorded, parameters, inputs), list(learnt.values())


def replayable(model: DeepGP) -> bool:
    """Whether steps of a model are known to be the same operations each time: nothing in it draws, or is a user's."""
    return (
        model.backbone is None
        and type(model.likelihood) in (GaussianLikelihood, ContaminatedGaussianLikelihood)
        and all(
            type(layer) is GPLayer
            and type(layer.features) in (ActivatedFeatures, DecoupledFeatures)
            and has_fixed_spectra(layer)
            for layer in model.gp_layers
        )
    )


@torch.enable_grad()  # what is learnt is seen from its gradient
def has_fixed_spectra(layer: GPLayer) -> bool:
    """Whether hidden units, and points beside them, are polynomials and shapes that do not change in training."""
    whitening = layer.constants().whitening
    if whitening.directions is None:
        return False
    return isinstance(layer.features, ActivatedFeatures) or whitening.amplitudes is not None


class _AsModule(nn.Module):
    """A function as a module, whose parameters are those of a model."""

    def __init__(self, model: DeepGP, function: Objective) -> None:
        super().__init__()
        self.model, self.function = model, function

    def forward(self, *inputs: Tensor) -> Evaluation:
        return self.function(*inputs)


class KnownGradient(torch.autograd.Function):
    """A number whose gradients have been computed along with it.

    They are given away, so that parameters can keep them as they are: it goes backwards once.
    """

    @staticmethod
    def forward(ctx: Any, value: Tensor, gradients: list[Tensor], *parameters: Tensor) -> Tensor:
        ctx.gradients = gradients
        return value.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        gradients, ctx.gradients = ctx.gradients, None
        return None, None, *(gradients if grad.item() == 1.0 else torch._foreach_mul(gradients, grad))


@torch.no_grad()
def _decide(model: DeepGP) -> Decisions:
    single = model.gp_layers[0].q.mean.dtype == torch.float32
    exact = single and any(layer.constants().whitening.R.dtype == torch.float64 for layer in model.gp_layers)
    return Decisions(exact, frozenset(id(layer) for layer in model.gp_layers if without_points(layer)))
