"""Recorded steps, compiled by TorchInductor: elementwise operations are fused, and no Python is left.

That takes the better part of a minute, less when the same was compiled before on the same machine. What is recorded is
compiled as it is, without `torch.compile`, which would look at all tensors in every step.
"""

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from gpytorch.likelihoods import GaussianLikelihood
from torch import Tensor, fx

from actgp.models import DeepGP, has_priors
from actgp.training.recording import Function, first_line, has_fixed_spectra

ON_CPU = {
    "cpp_wrapper": True,
    "cpp.min_chunk_size": 2**12,  # numbers that are worth another thread
    "cpp.enable_loop_tail_vec": False,  # rows of nine numbers are faster one by one than as masked vectors
}


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
    if has_priors(model):
        raise ValueError("compile=True is for models without priors on parameters, got some; leave compile out")
    for i, layer in enumerate(model.gp_layers, start=1):
        if not has_fixed_spectra(layer):
            raise ValueError(
                f"compile=True needs activations and kernels whose energies are fixed, got layer {i} with "
                f"{type(layer.features).__name__} and {type(layer.kernel).__name__}; use an activation that is not "
                "learnable and ArcCosine or MatchedKernel, or leave compile out"
            )


def compiled(recorded: fx.GraphModule, parameters: Sequence[Tensor], inputs: Sequence[Tensor]) -> Function:
    """A function of the inputs, for parameters that stay where they are in memory."""
    tensors: list[Any] = [*parameters, *inputs]
    for node in recorded.graph.nodes:
        node.meta.clear()  # shapes are those of the tensors; what was noted of each by itself does not fit
    options: dict[str, Any] = ON_CPU if inputs[0].device.type == "cpu" else {}
    try:
        with _quietly(), torch.no_grad():
            function: Function = torch._inductor.compile(recorded, tensors, options)
            function(*tensors)
    except Exception as error:
        raise RuntimeError(
            f"expected a model whose steps can be compiled, and a C++ compiler, got {type(error).__name__}: "
            f"{first_line(error)}; leave compile out"
        ) from error
    return partial(function, *parameters)


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
