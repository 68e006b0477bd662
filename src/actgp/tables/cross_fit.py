"""Networks that are trained side by side, each on all folds of the data but one: every row has one that never saw it.

What that network says of the row, μ_k(i)(x_i), is an honest prediction: its errors are those that new rows will bring,
and a GP that is fitted to them is as wide as it should be. At new rows all networks answer.

AdamW on the squared error, with rates that fall and rise several times (RealMLP; Holzmüller et al., 2024),

    rate(t) = ½ (1 − cos 2π log₂(1 + 15 t)),     t from 0 to 1,

and all networks end with the parameters of the step after which left-out rows were predicted best, by all of them
together: if each took the step that was best on its own fold, small folds would seem better predicted than new rows.
"""

import copy
from collections.abc import Callable
from math import cos, log2, pi
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from actgp.models.networks import Networks

RATE, BETAS, WEIGHT_DECAY = 0.04, (0.9, 0.95), 0.01
FACTORS_RATE, BIASES_RATE = 6.0, 0.1  # relative
CYCLES = 4
NUM_INNER = 2  # matrices between hidden layers
BATCH_SIZE = 256
VALIDATE_EVERY = 25
MOST_VALIDATED = 1_000  # rows of a fold


class CrossFit(NamedTuple):
    """What came of it.

    Attributes:
        networks: One for each fold.
        left_out: For each row, what the network says that has not seen it.
    """

    networks: Networks
    left_out: Float[Tensor, "N P"]


def rate_at(t: float) -> float:
    """The factor of learning rates."""
    return 0.5 * (1 - cos(2 * pi * log2(1 + (2**CYCLES - 1) * t)))


@torch.enable_grad()
def cross_fit(
    X: Float[Tensor, "N D"],
    y: Float[Tensor, "N P"],
    num_networks: int,
    num_steps: int,
    generator: torch.Generator,
    report: Callable[[float], None] = lambda _: None,
) -> CrossFit:
    """Trains networks in single precision.

    Args:
        X: Inputs.
        y: Targets.
        num_networks: K, as many as there are folds.
        num_steps: Of AdamW, for all of them together.
        generator: Draws weights, folds and the order of rows.
        report: Called with the score of left-out rows whenever it is found.
    """
    N, K = len(X), num_networks
    inputs, targets = X.float(), y.float()
    networks = Networks(K, X.shape[1], y.shape[1], num_inner=NUM_INNER, generator=generator).to(X.device)
    networks.scale_to(inputs)
    order = torch.randperm(N, generator=generator)
    folds = [order[k::K] for k in range(K)]
    fewest = min(N - len(fold) for fold in folds)
    others = torch.stack([torch.cat(folds[:k] + folds[k + 1 :])[:fewest] for k in range(K)])  # [K, n]
    judged = torch.stack([fold[: min(MOST_VALIDATED, N // K)] for fold in folds])
    optimiser = torch.optim.AdamW(_groups(networks), lr=RATE, betas=BETAS, weight_decay=WEIGHT_DECAY, fused=True)
    best, parameters = float("inf"), copy.deepcopy(networks.state_dict())
    batches = Shuffled(others, min(BATCH_SIZE, fewest), generator)
    for step in range(num_steps):
        for group in optimiser.param_groups:
            group["lr"] = group["initial_lr"] * rate_at((step + 0.5) / num_steps)
        rows = batches.next().to(X.device)  # [K, B]
        loss = (networks(inputs[rows]) - targets[rows]).square().mean((1, 2)).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if (step + 1) % VALIDATE_EVERY == 0 or step + 1 == num_steps:
            with torch.no_grad():
                error = (networks(inputs[judged]) - targets[judged]).square().mean().item()
            if error < best:
                best, parameters = error, copy.deepcopy(networks.state_dict())
            report(-error)
    networks.load_state_dict(parameters)
    left_out = torch.empty_like(targets)
    with torch.no_grad():
        for k, fold in enumerate(folds):
            left_out[fold] = networks(inputs[fold])[k]
    return CrossFit(networks.eval(), left_out)


class Shuffled:
    """Minibatches of the rows of each network, shuffled anew in each pass."""

    def __init__(self, rows: Int[Tensor, "K n"], batch_size: int, generator: torch.Generator) -> None:
        self.rows, self.batch_size, self.generator = rows, batch_size, generator
        self.left: Tensor = rows[:, :0]

    def next(self) -> Int[Tensor, "K B"]:
        """The next one; what is left at the end of a pass, and less than a minibatch, is dropped."""
        if self.left.shape[1] < self.batch_size:
            orders = [torch.randperm(self.rows.shape[1], generator=self.generator) for _ in self.rows]
            self.left = self.rows.gather(1, torch.stack(orders))
        batch, self.left = self.left[:, : self.batch_size], self.left[:, self.batch_size :]
        return batch


def _groups(networks: Networks) -> list[dict[str, Any]]:
    """Scales of columns are learnt quickly, biases slowly and without decay."""
    of_factors = {"params": [networks.factors], "lr": RATE * FACTORS_RATE}
    of_biases = {"params": [networks.biases, networks.last_bias], "lr": RATE * BIASES_RATE, "weight_decay": 0.0}
    of_weights = {"params": [networks.first, networks.inner, networks.last], "lr": RATE}
    return [group | {"initial_lr": group["lr"]} for group in (of_factors, of_biases, of_weights)]
