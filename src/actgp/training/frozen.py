"""Parts that are not trained: their batch statistics stay as they are, and a backbone's outputs are computed once.

A part is frozen where it has parameters and none of them requires a gradient: `model.backbone.requires_grad_(False)`.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from actgp.models import DeepGP

ROWS = 512  # that go through a backbone at a time


def is_frozen(module: nn.Module | None) -> bool:
    """Whether a module has parameters, and none that is trained."""
    parameters = [] if module is None else list(module.parameters())
    return bool(parameters) and not any(p.requires_grad for p in parameters)


def train_mode(model: nn.Module) -> None:
    """Training mode for all but frozen parts, which neither drop units nor count batches into their statistics."""
    model.train()
    for part in model.modules():
        if is_frozen(part):
            part.eval()


@torch.no_grad()
def backbone_features(model: DeepGP, X: Tensor) -> Float[Tensor, "N D"]:
    """What the first layer is given at each input, by the backbone in evaluation mode."""
    model.eval()
    device = next(model.parameters()).device
    return torch.cat([model.enter(part.to(device)) for part in X.split(ROWS)])
