"""A step as a recorded function: loss, objective and all gradients, for one shape of minibatch.

What an eager step does besides arithmetic, it does again in every step: Python, automatic differentiation, checks. Here
its operations, those of the gradients included, are recorded once; from then on they are replayed as they are
(`replay`), or what TorchInductor has made of them is called (`compiled`).

Where values decide (the precision of Kuf, a Cholesky decomposition that wants more jitter), a recording does not look
at them. It gives them away with its results: where they would have decided otherwise, the eager step is taken instead.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from math import isfinite
from typing import Protocol

import torch
from gpytorch.likelihoods import GaussianLikelihood
from torch import Tensor, fx, nn
from torch.fx.experimental.proxy_tensor import make_fx

from actgp.features import ActivatedFeatures, DecoupledFeatures
from actgp.layers import GPLayer
from actgp.layers.network import without_points
from actgp.likelihoods import ContaminatedGaussianLikelihood
from actgp.models import DeepGP
from actgp.tracing import Decisions, listening, traced
from actgp.training.objectives import Evaluation

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
        self.parameters = dict(model.named_parameters())
        self.functions: dict[Hashable, tuple[Function, list[nn.Parameter]]] = {}
        self.answers: dict[Hashable, tuple[bool, ...]] = {}
        self.seen: Counter[Hashable] = Counter()

    def __call__(self, *inputs: Tensor) -> Evaluation:
        places = ((p.data_ptr(), p.requires_grad) for p in self.parameters.values())
        key = (*places, *((x.shape, x.stride(), x.storage_offset(), x.dtype) for x in inputs))
        answers = self.answers.get(key)
        found = self.functions.get((key, answers))
        if found is None:
            self.seen[key] += 1
            if self.seen[key] <= self.after:
                return self.objective(*inputs)
            decisions = self._decide(inputs)
            answers = self.answers[key] = decisions.answers
            found = self.functions[key, answers] = self._record(inputs, decisions)
        function, learnt = found
        loss, objective, asked, *gradients = function(*inputs)
        self.answers[key] = tuple(not size <= 1.0 for size in asked.tolist())
        # Decompositions may need more jitter, units another precision; hooks want to be called.
        hooks = any(p._backward_hooks or p._post_accumulate_grad_hooks for p in learnt)
        if hooks or self.answers[key] != answers or not isfinite(loss.item()):
            return self.objective(*inputs)
        return Evaluation(loss, objective, (learnt, gradients))

    def _decide(self, inputs: tuple[Tensor, ...]) -> Decisions:
        """What values decide now; and what is prepared at the first use is not recorded afterwards."""
        with listening() as answers:
            self.objective(*inputs)
        return Decisions(tuple(answers), frozenset(id(own) for own in self.model.gp_layers if without_points(own)))

    def _record(self, inputs: tuple[Tensor, ...], decisions: Decisions) -> tuple[Function, list[nn.Parameter]]:
        """A function of the inputs, and the parameters whose gradients it finds.

        Parameters that are frozen are read in each step, too: a callback may change them.
        """
        module, number = _AsModule(self.model, self.objective), len(self.parameters)
        learnt: list[nn.Parameter] = []

        def step(*tensors: Tensor) -> tuple[Tensor, ...]:
            own = list(zip(self.parameters, self.parameters.values(), tensors[:number], strict=True))
            leaves = {name: value.detach().requires_grad_(p.requires_grad) for name, p, value in own}
            with torch.enable_grad(), traced(decisions) as trace:
                swapped = {f"model.{name}": leaf for name, leaf in leaves.items()}
                loss, objective, _ = torch.func.functional_call(module, swapped, tensors[number:])
                free = [(p, leaves[name]) for name, p, _ in own if p.requires_grad]
                found = torch.autograd.grad(loss, [leaf for _, leaf in free], allow_unused=True)
            gradients = []
            for (p, leaf), gradient in zip(free, found, strict=True):
                if gradient is not None:
                    learnt.append(p)
                    gradients.append(_laid_out_like(leaf, gradient))
            asked = torch.stack(trace.asked) if trace.asked else loss.new_empty(0)
            return loss.detach(), objective.detach(), asked, *gradients

        parameters = [p.detach() for p in self.parameters.values()]
        with torch.no_grad():
            recorded = make_fx(step)(*parameters, *inputs)
        return self.make(recorded, parameters, inputs), learnt


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


def _laid_out_like(parameter: Tensor, gradient: Tensor) -> Tensor:
    """As optimisers expect it."""
    return gradient if gradient.stride() == parameter.stride() else torch.empty_like(parameter).copy_(gradient)
