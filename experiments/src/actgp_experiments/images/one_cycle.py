"""Training of a network on images: one cycle of SGD in bfloat16 where that is faster, resumed epoch by epoch."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from actgp.persistence import archive
from actgp_experiments.images.augmentation import augmented
from actgp_experiments.images.recipes import NetworkRecipe

KIND = "unfinished network"
WARM_UP = 0.25  # of all steps, in which the rate rises
LOWEST = 0.01  # of the largest rate: where the cycle begins; it ends at zero


def train(
    network: nn.Module,
    X: Tensor,
    y: Tensor,
    recipe: NetworkRecipe,
    seed: int,
    unfinished: Path,
    report: Callable[[int, float], None] = lambda epoch, loss: None,
) -> None:
    """Trains a network on the cross-entropy, in place, and leaves it in evaluation mode.

    Args:
        network: The network, freshly drawn.
        X: Images [N, C, H, W].
        y: Their classes.
        recipe: How.
        seed: Of the order of images and of their augmentation.
        unfinished: A file that is written after each epoch, and read if it is there; removed at the end.
        report: Called after each epoch with its mean loss.
    """
    steps = len(y) // recipe.batch_size  # of an epoch; a rest is left out, others each time
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    sgd = _sgd(network, recipe)
    begin = _resume(network, sgd, unfinished)
    network.train()
    for epoch in range(begin, recipe.epochs):
        generator = torch.Generator().manual_seed(1_000 * seed + epoch)
        order = torch.randperm(len(y), generator=generator)[: steps * recipe.batch_size]
        total = 0.0
        with torch.random.fork_rng(devices=[]):  # of dropout
            torch.manual_seed(1_000 * seed + epoch)
            for step, rows in enumerate(order.split(recipe.batch_size)):
                rate = rate_at((epoch * steps + step) / (recipe.epochs * steps)) * recipe.rate
                for group in sgd.param_groups:
                    group["lr"] = rate
                batch = augmented(X[rows], recipe.translation, recipe.flips, generator)
                with torch.autocast("cpu", torch.bfloat16):
                    outputs = network(batch.contiguous(memory_format=torch.channels_last))
                loss = nn.functional.cross_entropy(outputs.float(), y[rows])
                sgd.zero_grad()
                loss.backward()
                sgd.step()
                total += loss.item()
        report(epoch, total / steps)
        _keep(network, sgd, epoch + 1, unfinished)
    network.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    network.eval()
    unfinished.unlink(missing_ok=True)


def rate_at(progress: float) -> float:
    """The learning rate relative to the largest: linear up to it, then linear down to zero."""
    if progress < WARM_UP:
        return LOWEST + (1 - LOWEST) * progress / WARM_UP
    return (1 - progress) / (1 - WARM_UP)


def _sgd(network: nn.Module, recipe: NetworkRecipe) -> torch.optim.SGD:
    decayed = [p for p in network.parameters() if p.ndim > 1]
    others = [p for p in network.parameters() if p.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": recipe.decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.SGD(groups, lr=recipe.rate, momentum=recipe.momentum, nesterov=True)


def _keep(network: nn.Module, sgd: torch.optim.SGD, epoch: int, path: Path) -> None:
    buffers = sgd.state_dict()["state"]
    momenta = {f"momentum.{i}": values["momentum_buffer"] for i, values in buffers.items()}
    weights = {f"network.{name}": values for name, values in network.state_dict().items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    archive.write(path, KIND, {"epoch": epoch}, weights | momenta)


def _resume(network: nn.Module, sgd: torch.optim.SGD, path: Path) -> int:
    """The epoch to begin with."""
    if not path.exists():
        return 0
    kept = archive.read(path, KIND)
    network.load_state_dict(
        {name.removeprefix("network."): t for name, t in kept.tensors.items() if name.startswith("network.")}
    )
    state: dict[str, Any] = sgd.state_dict()
    count = sum(len(group["params"]) for group in state["param_groups"])
    state["state"] = {i: {"momentum_buffer": kept.tensors[f"momentum.{i}"]} for i in range(count)}
    sgd.load_state_dict(state)
    return int(kept.document["epoch"])
