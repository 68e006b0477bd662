"""What `fit` is called with beside model and data, checked before anything changes."""

import os
from typing import Any

import torch
from torch import Tensor, distributed

from actgp.training.recipe import Recipe


def check_one_process() -> None:
    """Refuses to train in one of several ranks: each would end with a model of its own, under the same file names."""
    if not distributed.is_available():
        return
    launched = int(os.environ.get("WORLD_SIZE", "1")) if distributed.is_torchelastic_launched() else 1
    joined = distributed.get_world_size() if distributed.is_initialized() else 1
    if (ranks := max(launched, joined)) > 1:
        raise RuntimeError(
            f"fit must run in one process, since it is not distributed, got {ranks} ranks; run the script with plain "
            "python, or torchrun --nproc-per-node=1, save the model, and load it in the ranks that predict"
        )


def check_options(recipe: Any, held_out: Any, callback: Any, generator: Any) -> None:
    """Refuses what cannot be followed, held out, called or drawn from."""
    if recipe is not None and not isinstance(recipe, Recipe):
        raise TypeError(
            f"recipe must be an actgp.Recipe or None, got {type(recipe).__name__}; "
            "pass e.g. actgp.Recipe(num_steps=500)"
        )
    if held_out is not None and not (
        isinstance(held_out, list | tuple) and len(held_out) == 2 and all(isinstance(part, Tensor) for part in held_out)
    ):
        raise TypeError(
            f"held_out must be a pair of tensors (X, y), got {type(held_out).__name__}; "
            "pass held_out=(X, y), rows that are not trained on"
        )
    if callback is not None and not callable(callback):
        raise TypeError(
            f"callback must be a function of a Step, got {type(callback).__name__}; pass a function, or None"
        )
    if generator is not None and not isinstance(generator, torch.Generator):
        raise TypeError(
            f"generator must be a torch.Generator, got {type(generator).__name__}; "
            "pass e.g. torch.Generator().manual_seed(0)"
        )
