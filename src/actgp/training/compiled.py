"""A step as one compiled function: loss, objective and all gradients.

Half of an eager step at small sizes is Python and the dispatch of small operations. Here its operations, those of the
gradients included, are recorded once for each shape of a minibatch, and what TorchInductor makes of them is called
instead. That takes the better part of a minute, less when the same was compiled before on the same machine. What is
recorded is compiled as it is, without `torch.compile`, which would look at all tensors in every step.
"""

import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from gpytorch.likelihoods import GaussianLikelihood
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx

from actgp.features import ActivatedFeatures
from actgp.layers import GPLayer
from actgp.layers.network import without_points
from actgp.models import DeepGP
from actgp.tracing import Decisions, traced
from actgp.training.objectives import Evaluation

LOOK_EVERY = 100  # steps between looks at what values decide

Objective = Callable[..., Evaluation]  # of X, y and noises


def check_compilable(model: DeepGP) -> None:
    """Refuses models whose steps draw random numbers, or look at values, on the way."""
    if not isinstance(model.likelihood, GaussianLikelihood):
        raise ValueError(
            f"compile=True needs a GaussianLikelihood, got {type(model.likelihood).__name__}; leave compile out"
        )
    if model.backbone is not None:
        raise ValueError(
            "compile=True is for layers alone, got a backbone; leave compile out, or freeze the backbone with "
            "requires_grad_(False) and pass X and y as tensors"
        )
    for i, layer in enumerate(model.gp_layers, start=1):
        if not _has_fixed_spectra(layer):
            raise ValueError(
                f"compile=True needs activations and kernels whose energies are fixed, got layer {i} with "
                f"{type(layer.features).__name__} and {type(layer.kernel).__name__}; use an activation that is not "
                "learnable and ArcCosine or MatchedKernel, or leave compile out"
            )


@torch.enable_grad()  # what is learnt is seen from its gradient
def _has_fixed_spectra(layer: GPLayer) -> bool:
    """Whether hidden units, and points beside them, are polynomials and shapes that do not change in training."""
    whitening = layer.constants().whitening
    if whitening.directions is None:
        return False
    return isinstance(layer.features, ActivatedFeatures) or whitening.amplitudes is not None


class CompiledObjective:
    """Called like the objective that it is made of.

    Args:
        model: The model.
        objective: A function of X, y and noises which does not draw.
    """

    def __init__(self, model: DeepGP, objective: Objective) -> None:
        self.model, self.objective = model, objective
        self.functions: dict[tuple[Any, ...], Callable[..., Sequence[Tensor]]] = {}
        self.steps = 0
        self.decisions, self.parameters = Decisions(exact=False), dict[str, Tensor]()

    def __call__(self, *inputs: Tensor) -> Evaluation:
        if self.steps % LOOK_EVERY == 0:
            self.decisions, self.parameters = _decide(self.model), dict(self.model.named_parameters())
        self.steps += 1
        learnt = {name: p for name, p in self.parameters.items() if p.requires_grad}
        tensors = [p.detach() for p in learnt.values()] + list(inputs)
        key = self.decisions, *learnt, *((x.shape, x.stride(), x.dtype) for x in tensors)
        if key not in self.functions:
            self.functions[key] = self._compile(list(learnt), tensors)
        loss, objective, *gradients = self.functions[key](*tensors)
        if not torch.isfinite(loss):  # a Cholesky decomposition that needs more jitter
            return self.objective(*inputs)
        return Evaluation(KnownGradient.apply(loss, gradients, *learnt.values()), objective)

    def _compile(self, names: Sequence[str], tensors: list[Tensor]) -> Callable[..., Sequence[Tensor]]:
        """A function of the parameters with these names, and the inputs after them."""
        number = len(names)
        self.objective(*tensors[number:])  # what is prepared at the first use is not to be recorded
        module = _AsModule(self.model, self.objective)

        def step(*tensors: Tensor) -> tuple[Tensor, ...]:
            leaves = [value.detach().requires_grad_() for value in tensors[:number]]
            swapped = {f"model.{name}": leaf for name, leaf in zip(names, leaves, strict=True)}
            with torch.enable_grad():
                loss, objective = torch.func.functional_call(module, swapped, tensors[number:])
                gradients = torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)
            return loss.detach(), objective.detach(), *gradients

        options: dict[str, Any] = {"cpp_wrapper": True} if tensors[0].device.type == "cpu" else {}
        try:
            with traced(self.decisions), torch.no_grad():
                recorded = make_fx(step)(*tensors)
            for node in recorded.graph.nodes:
                node.meta.clear()  # shapes are those of the tensors; what was noted of each by itself does not fit
            with _quietly(), torch.no_grad():
                compiled: Callable[..., Sequence[Tensor]] = torch._inductor.compile(
                    recorded, list[Any](tensors), options
                )
                compiled(*tensors)
        except Exception as error:
            raise RuntimeError(
                f"expected a model whose steps can be compiled, and a C++ compiler, got {type(error).__name__}: "
                f"{str(error).splitlines()[0] if str(error) else ''}; leave compile out"
            ) from error
        return compiled


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


@contextmanager
def _quietly() -> Iterator[None]:
    """The compiler remarks on operations for which it calls torch, and on itself: that is meant for others."""
    logger = logging.getLogger("torch._inductor")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
