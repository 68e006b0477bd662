"""A step as a recorded function: loss, objective and all gradients, for one shape of minibatch.

What an eager step does besides arithmetic, it does again in every step: Python, automatic differentiation, checks. Here
its operations, those of the gradients included, are recorded once; from then on they are replayed as they are
(`replay`), or what TorchInductor has made of them is called (`compiled`).

Where values decide (the precision of Kuf, a Cholesky decomposition that wants more jitter), a recording does not look
at them. It gives them away with its results: where they would have decided otherwise, the eager step is taken instead.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import isfinite
from threading import Lock
from typing import Any, NamedTuple, Protocol

import torch
from gpytorch.likelihoods import GaussianLikelihood
from torch import Tensor, fx, nn
from torch.fx.experimental.proxy_tensor import make_fx

from actgp.activations import Activation
from actgp.features import ActivatedFeatures, DecoupledFeatures, InducingFeatures
from actgp.layers import GPLayer
from actgp.likelihoods import ContaminatedGaussianLikelihood
from actgp.models import DeepGP, has_priors
from actgp.tracing import is_above, listening, traced
from actgp.training.objectives import Evaluation

Objective = Callable[..., Evaluation]  # of X, y and noises
Function = Callable[..., Sequence[Tensor]]  # of the same: loss, objective, what values decide by, gradients

_ONE_AT_A_TIME = Lock()  # recording changes torch's own state


class Maker(Protocol):
    """Makes a function of inputs from one of parameters and inputs that was recorded."""

    def __call__(self, recorded: fx.GraphModule, parameters: Sequence[Tensor], inputs: Sequence[Tensor]) -> Function:
        """For parameters that stay where they are in memory."""


class Recording(NamedTuple):
    """A function, the parameters whose gradients it finds, and the answers for which it was recorded."""

    function: Function
    learnt: list[nn.Parameter]
    answers: tuple[bool, ...]


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
        self.parts = [(m._modules, name, part) for m in model.modules() for name, part in m._modules.items()]
        self._begin()

    def _begin(self) -> None:
        self.parameters = dict(self.model.named_parameters())
        self.held = _held(self.model)
        self.functions: dict[Hashable, Recording] = {}
        self.answers: dict[Hashable, tuple[bool, ...]] = {}
        self.seen: Counter[Hashable] = Counter()

    def __call__(self, *inputs: Tensor) -> Evaluation:
        if _replaced(self.held):
            self._begin()
        own = self.parameters.values()
        if _replaced(self.parts) or any(p._backward_hooks or p._post_accumulate_grad_hooks for p in own):
            return self.objective(*inputs)  # parts that may be anybody's; hooks that want to be called
        places = ((p.data_ptr(), p.requires_grad) for p in own)
        key = (*places, *((x.shape, x.stride(), x.storage_offset(), x.dtype) for x in inputs))
        found = self.functions.get((key, self.answers.get(key)))
        if found is None:
            self.seen[key] += 1
            if self.seen[key] <= self.after or _share_memory(inputs):
                return self.objective(*inputs)
            found = self._find(key, inputs)
        function, learnt, answers = found
        loss, objective, asked, *gradients = function(*inputs)
        self.answers[key] = tuple(map(is_above, asked.tolist()))
        # Decompositions may need more jitter, units another precision.
        if self.answers[key] != answers or not isfinite(loss.item()):
            return self.objective(*inputs)
        return Evaluation(loss, objective, (learnt, gradients))

    def _find(self, key: Hashable, inputs: tuple[Tensor, ...]) -> "Recording":
        """A recording for what values decide now."""
        free = [p for p in self.parameters.values() if p.requires_grad]
        with listening() as heard:  # what is prepared at the first use is not to be recorded
            torch.autograd.grad(self.objective(*inputs).loss, free, allow_unused=True)
        answers = self.answers[key] = tuple(heard)
        if (key, answers) not in self.functions:
            with _ONE_AT_A_TIME:
                self.functions[key, answers] = self._record(inputs, answers)
        return self.functions[key, answers]

    def _record(self, inputs: tuple[Tensor, ...], answers: tuple[bool, ...]) -> "Recording":
        """Parameters that are frozen are read in each step, too: a callback may change them."""
        own, learnt = list(self.parameters.values()), list[nn.Parameter]()

        def step(*tensors: Tensor) -> tuple[Tensor, ...]:
            leaves = {p: value.detach().requires_grad_(p.requires_grad) for p, value in zip(own, tensors, strict=False)}
            with torch.enable_grad(), traced(answers) as trace, _swapped(self.model, leaves):
                loss, objective, _ = self.objective(*tensors[len(own) :])
                free = [p for p in own if p.requires_grad]
                found = torch.autograd.grad(loss, [leaves[p] for p in free], allow_unused=True)
            gradients = []
            for p, gradient in zip(free, found, strict=True):
                if gradient is not None:
                    learnt.append(p)
                    gradients.append(_laid_out_like(p, gradient))
            asked = torch.stack(trace.asked) if trace.asked else loss.new_empty(0)
            return loss.detach(), objective.detach(), asked, *gradients

        parameters = [p.detach() for p in self.parameters.values()]
        try:
            with torch.no_grad():
                recorded = make_fx(step)(*parameters, *inputs)  # calls it once
        except Exception as error:
            raise RuntimeError(
                f"expected a model whose steps can be recorded, got {type(error).__name__}: {first_line(error)}; leave "
                "compile out, or use model.elbo"
            ) from error
        return Recording(self.make(recorded, parameters, inputs), learnt, answers)


def replayable(model: DeepGP) -> bool:
    """Whether steps of a model are known to be the same operations each time: nothing in it draws, or is a user's."""
    parts = [(layer.kernel, layer.features) for layer in model.gp_layers]
    return (
        model.backbone is None
        and not has_priors(model)
        and type(model.likelihood) in (GaussianLikelihood, ContaminatedGaussianLikelihood)
        and all(type(layer) is GPLayer and has_fixed_spectra(layer) for layer in model.gp_layers)
        and all(type(features) in (ActivatedFeatures, DecoupledFeatures) for _, features in parts)
        and all(_is_known(kernel) and _is_known(_activation(features)) for kernel, features in parts)
    )


def _activation(features: InducingFeatures) -> Activation | None:
    if isinstance(features, DecoupledFeatures):
        features = features.activated
    return features.activation if isinstance(features, ActivatedFeatures) else None


def _is_known(shape: object) -> bool:
    """Whether a kernel or an activation is the library's own, with energies that can never change."""
    return type(shape).__module__.split(".")[0] == __name__.split(".")[0] and getattr(shape, "stamp", None) is not None


@torch.enable_grad()  # what is learnt is seen from its gradient
def has_fixed_spectra(layer: GPLayer) -> bool:
    """Whether hidden units, and points beside them, are polynomials and shapes that do not change in training."""
    whitening = layer.constants().whitening
    if whitening.directions is None:
        return False
    return isinstance(layer.features, ActivatedFeatures) or whitening.amplitudes is not None


@contextmanager
def _swapped(model: nn.Module, leaves: Mapping[nn.Parameter, Tensor]) -> Iterator[None]:
    """The model computes with other tensors in place of its parameters, also if a part of it is in several places."""
    held = _held(model)
    try:
        for parameters, name, p in held:
            parameters[name] = leaves[p]  # type: ignore[assignment]
        yield
    finally:
        for parameters, name, p in held:
            parameters[name] = p


def _held(model: nn.Module) -> list[tuple[dict[str, nn.Parameter | None], str, nn.Parameter]]:
    """Where each parameter is kept."""
    return [(m._parameters, name, p) for m in model.modules() for name, p in m._parameters.items() if p is not None]


def _replaced(kept: Sequence[tuple[Mapping[str, Any], str, Any]]) -> bool:
    """Whether something else is now where these were."""
    return any(place.get(name) is not it for place, name, it in kept)


def _share_memory(tensors: Sequence[Tensor]) -> bool:
    return len({x.untyped_storage().data_ptr() for x in tensors}) < len(tensors)


def _laid_out_like(parameter: Tensor, gradient: Tensor) -> Tensor:
    """As optimisers expect it."""
    return gradient if gradient.stride() == parameter.stride() else torch.empty_like(parameter).copy_(gradient)


def first_line(error: Exception) -> str:
    """Of its text."""
    return str(error).split("\n", 1)[0]
