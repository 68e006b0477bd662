"""Plain networks as users have them: an MLP, AdamW, early stopping; kept in a folder, with what training them cost."""

import copy
import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from actgp.persistence import archive
from actgp_experiments.bring.settings import BringSettings

KIND = "network"
ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "silu": nn.SiLU, "tanh": nn.Tanh}

Loss = Callable[[nn.Module, Tensor, Tensor], Tensor]  # of a network at a batch, the mean


class Rows(NamedTuple):
    """Standardised rows: to train on, and to validate on; both [N, D] and [N, 1]."""

    X_train: Float[Tensor, "N D"]
    y_train: Float[Tensor, "N 1"]
    X_validation: Float[Tensor, "V D"]
    y_validation: Float[Tensor, "V 1"]


class Trained(NamedTuple):
    """A network, in evaluation mode, and the CPU seconds that its training took."""

    network: nn.Sequential
    seconds: float


def hold_out(X: Tensor, y: Float[Tensor, " N"], part: float, seed: int) -> Rows:
    """Divides training rows."""
    order = torch.randperm(len(X), generator=torch.Generator().manual_seed(seed))
    validation, train = order.split([round(part * len(X)), len(X) - round(part * len(X))])
    return Rows(X[train], y[train, None], X[validation], y[validation, None])


def build(
    num_inputs: int, activation: str, layers: int, units: int, outputs: int = 1, dropout: float = 0.0
) -> nn.Sequential:
    """An MLP, drawn with torch's global generator."""
    widths = [num_inputs] + [units] * layers
    parts: list[nn.Module] = []
    for before, after in pairwise(widths):
        parts += [nn.Linear(before, after), ACTIVATIONS[activation]()]
        parts += [nn.Dropout(dropout)] if dropout else []
    return nn.Sequential(*parts, nn.Linear(units, outputs))


def squared_error(network: nn.Module, X: Tensor, y: Float[Tensor, "N 1"]) -> Tensor:
    """Mean of (f − y)²."""
    return (network(X) - y).square().mean()


@torch.enable_grad()
def train(
    network: nn.Module,
    rows: Rows,
    settings: BringSettings,
    seed: int,
    loss: Loss = squared_error,
    validation_loss: Loss | None = None,
    steps: int | None = None,
    clip: float | None = None,
    undecayed: nn.Module | None = None,
) -> float:
    """AdamW on minibatches, ending with what validated best; returns the CPU seconds.

    Args:
        network: Changed in place.
        rows: To train and validate on.
        settings: Steps and rates.
        seed: Of the order of rows.
        loss: To be minimised.
        validation_loss: By which training ends, if it is another one.
        steps: At most, if not those of the settings.
        clip: The norm to which gradients are clipped.
        undecayed: A part of the network without weight decay.
    """
    judge = loss if validation_loss is None else validation_loss
    g = torch.Generator().manual_seed(seed)
    free = [] if undecayed is None else list(undecayed.parameters())
    decayed = [p for p in network.parameters() if not any(p is other for other in free)]
    groups: list[dict[str, Any]] = [{"params": decayed}, {"params": free, "weight_decay": 0.0}]
    adam = torch.optim.AdamW(groups, settings.rate, weight_decay=settings.weight_decay, fused=True)
    began, steps = time.process_time(), settings.steps if steps is None else steps  # not with what torch loads
    best, best_step, kept = float("inf"), 0, copy.deepcopy(network.state_dict())
    order: Tensor = torch.empty(0, dtype=torch.long)
    network.train()
    for step in range(1, steps + 1):
        if len(order) == 0:
            order = torch.randperm(len(rows.X_train), generator=g)
        batch, order = order[: settings.batch_size], order[settings.batch_size :]
        adam.zero_grad()
        loss(network, rows.X_train[batch], rows.y_train[batch]).backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(network.parameters(), clip)
        adam.step()
        if step % settings.every == 0 or step == steps:
            network.eval()
            with torch.no_grad():
                score = judge(network, rows.X_validation, rows.y_validation).item()
            network.train()
            if score < best:
                best, best_step, kept = score, step, copy.deepcopy(network.state_dict())
            elif step - best_step >= settings.patience:
                break
    network.load_state_dict(kept)
    network.eval()
    return time.process_time() - began


@dataclass(frozen=True)
class Networks:
    """The networks of one split of a data set.

    Attributes:
        data: Its name.
        activation: Of hidden layers.
        layers: How many of them.
        rows: To train and validate on.
        settings: Shape and training.
        folder: Where networks are kept.
    """

    data: str
    activation: str
    layers: int
    rows: Rows
    settings: BringSettings
    folder: Path

    def trained(self, seed: int, dropout: float = 0.0) -> Trained:
        """From the folder, or trained now."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = self.new(dropout=dropout)
            path = self._path(seed, dropout)
            if path.exists():
                _, document, tensors = archive.read(path, KIND)
                network.load_state_dict(tensors)
                return Trained(network.eval(), float(document["seconds"]))
            seconds = train(network, self.rows, self.settings, seed)
        path.parent.mkdir(parents=True, exist_ok=True)
        archive.write(path, KIND, {"seconds": seconds}, network.state_dict())
        return Trained(network, seconds)

    def new(self, outputs: int = 1, dropout: float = 0.0) -> nn.Sequential:
        """Not trained yet, drawn with torch's global generator."""
        D = self.rows.X_train.shape[1]
        return build(D, self.activation, self.layers, self.settings.units, outputs, dropout)

    def _path(self, seed: int, dropout: float) -> Path:
        s = self.settings
        shape = (s.units, s.steps, s.batch_size, s.rate, s.weight_decay, s.validation, s.every, s.patience, dropout)
        digest = hashlib.sha256(json.dumps(shape).encode()).hexdigest()[:12]
        return self.folder / f"{self.data}_{self.activation}_{self.layers}_{seed}_{digest}.network"
