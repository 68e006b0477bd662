"""Second derivatives of functions whose gradient is derived by hand."""

from collections.abc import Callable

import torch
from torch import Tensor


def differentiated(
    function: Callable[..., tuple[Tensor, ...]], inputs: tuple[Tensor | None, ...], grads: tuple[Tensor, ...]
) -> tuple[Tensor | None, ...]:
    """The gradient of a function of plain operations, as a function that can be differentiated again.

    For backward passes that are derived by hand, where somebody asks for second derivatives. One input may have been
    computed from another: what goes through it is not to be counted here, which the views see to.
    """
    inputs = tuple(x.view_as(x) if x is not None and x.requires_grad else x for x in inputs)
    needed = [x for x in inputs if x is not None and x.requires_grad]
    gradients = iter(torch.autograd.grad(function(*inputs), needed, grads, create_graph=True, allow_unused=True))
    return tuple(next(gradients) if x is not None and x.requires_grad else None for x in inputs)
