"""Networks that are trained side by side, each on all folds of the data but one: every row has one that never saw it.

What that network says of the row, μ_k(i)(x_i), is an honest prediction: its errors are those that new rows will bring,
and a GP that is fitted to them is as wide as it should be. At new rows all networks answer.

AdamW on the squared error, with rates that fall and rise several times (RealMLP; Holzmüller et al., 2024),

    rate(t) = ½ (1 − cos 2π log₂(1 + 15 t)),     t from 0 to 1,

once with weight decay and shorter waves, and once without: some tables gain from these, others lose. What both groups
say is blended by what predicts left-out rows best. Each group ends with the parameters of the step after which left-out rows
were predicted best, by all folds together: if each network took the step that was best on its own fold, small folds
would seem better predicted than new rows.
"""

import copy
from collections.abc import Callable
from math import cos, log2, pi
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from actgp.models.networks import Networks

RATE, BETAS = 0.04, (0.9, 0.95)
DECAYS = (0.0, 0.03)  # of weights, in AdamW: a group of networks for each
STRETCHES = (1.0, 3.0)  # of the frequencies of each group's waves
FACTORS_RATE, BIASES_RATE = 6.0, 0.1  # relative
CYCLES = 4
NUM_INNER = 2  # matrices between hidden layers
BATCH_SIZE = 128
VALIDATE_EVERY = 25
MOST_VALIDATED = 1_000  # rows of a fold


class CrossFit(NamedTuple):
    """What came of it.

    Attributes:
        networks: One of each group for each fold.
        left_out: For each row, what the networks say, blended, that have not seen it.
        error: Its mean squared error.
    """

    networks: Networks
    left_out: Float[Tensor, "N P"]
    error: float


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
        num_networks: K, as many as there are folds; there are as many of each group.
        num_steps: Of AdamW, for all of them together.
        generator: Draws weights, folds and the order of rows.
        report: Called with the score of left-out rows whenever it is found.
    """
    N, K, G = len(X), num_networks, len(DECAYS)
    inputs, targets = X.float(), y.float()
    networks = Networks(G * K, X.shape[1], y.shape[1], num_inner=NUM_INNER, num_groups=G, generator=generator)
    with torch.no_grad():
        networks.frequencies.mul_(torch.tensor(STRETCHES).repeat_interleave(K).view(-1, 1, 1, 1))
    networks.to(X.device)
    order = torch.randperm(N, generator=generator)
    folds = [order[k::K] for k in range(K)]
    fewest = min(N - len(fold) for fold in folds)
    others = torch.stack([torch.cat(folds[:k] + folds[k + 1 :])[:fewest] for k in range(K)])  # [K, n]
    judged = torch.stack([fold[: min(MOST_VALIDATED, N // K)] for fold in folds])  # [K, v]
    judged = judged.repeat(G, 1)
    optimiser = torch.optim.AdamW(_groups(networks), lr=RATE, betas=BETAS, weight_decay=0.0, fused=True)
    decay = inputs.new_tensor(DECAYS).repeat_interleave(K).view(-1, 1, 1)  # of each network
    best = torch.full((G,), float("inf"), device=X.device)
    kept = copy.deepcopy(networks.state_dict())
    batches = Shuffled(others.repeat(G, 1), min(BATCH_SIZE, fewest), generator)
    for step in range(num_steps):
        rate = rate_at((step + 0.5) / num_steps)
        for group in optimiser.param_groups:
            group["lr"] = group["initial_lr"] * rate
        rows = batches.next().to(X.device)  # [G K, B]
        loss = (networks(inputs[rows]) - targets[rows]).square().mean((1, 2)).sum()
        optimiser.zero_grad()
        loss.backward()
        with torch.no_grad():
            for weights in (networks.first, networks.inner, networks.last):
                weights.mul_(1 - RATE * rate * decay)
        optimiser.step()
        if (step + 1) % VALIDATE_EVERY == 0 or step + 1 == num_steps:
            with torch.no_grad():
                errors = (networks(inputs[judged]) - targets[judged]).square().mean((1, 2)).view(G, K).mean(1)
            _keep(networks, kept, (errors < best).repeat_interleave(K))
            best = torch.minimum(best, errors)
            report(-best.mean().item())
    networks.load_state_dict(kept)
    left_out = torch.empty(G, *targets.shape, device=X.device)
    with torch.no_grad():
        for k, fold in enumerate(folds):
            left_out[:, fold] = networks(inputs[fold])[k::K]
        networks.shares.copy_(blending_shares(left_out, targets))
        blend = networks.blend(left_out)[0]
        return CrossFit(networks.eval(), blend, (blend - targets).square().mean().item())


def blending_shares(f: Float[Tensor, "2 N P"], y: Float[Tensor, "N P"]) -> Float[Tensor, " 2"]:
    """s of the least ‖y − s f₁ − (1 − s) f₂‖², between zero and one."""
    first, second = f
    difference = first - second
    share = ((y - second) * difference).sum() / difference.square().sum().clamp_min(torch.finfo(y.dtype).tiny)
    share = share.clamp(0.0, 1.0)
    return torch.stack([share, 1 - share])


def _keep(networks: Networks, kept: dict[str, Tensor], better: Bool[Tensor, " GK"]) -> None:
    """Takes the parameters of those networks that have never been better."""
    for name, p in networks.named_parameters():
        _by_network(name, kept[name])[better] = _by_network(name, p.detach())[better]


def _by_network(name: str, values: Tensor) -> Tensor:
    """A view with the networks first; matrices between hidden layers are stacked by layer before that."""
    return values.transpose(0, 1) if name in ("inner", "biases") else values


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
    """Scales of columns are learnt quickly, biases and waves slowly."""
    of_factors = {"params": [networks.factors], "lr": RATE * FACTORS_RATE}
    waves = [networks.frequencies, networks.phases, networks.mixing, networks.mixing_bias]
    of_biases = {"params": [networks.biases, networks.last_bias, *waves], "lr": RATE * BIASES_RATE}
    of_weights = {"params": [networks.first, networks.inner, networks.last], "lr": RATE}
    return [group | {"initial_lr": group["lr"]} for group in (of_factors, of_biases, of_weights)]
