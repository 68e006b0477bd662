"""Networks that are trained side by side, each on all folds of the data but one: every row has one that never saw it.

What that network says of the row, μ_k(i)(x_i), is an honest prediction: its errors are those that new rows will bring,
and a GP that is fitted to them is as wide as it should be. At new rows all networks answer.

AdamW on the squared error, or for labels on their cross-entropy, with rates that fall and rise several times (RealMLP;
Holzmüller et al., 2024),

    rate(t) = ½ (1 − cos 2π log₂(1 + 15 t)),     t from 0 to 1,

once with weight decay and shorter waves, and once without: some tables gain from these, others lose. What both groups
say is blended by what predicts left-out rows best. Each group ends with the parameters of the step after which left-out
rows were predicted best, by all folds together: if each network took the step that was best on its own fold, small
folds would seem better predicted than new rows.
"""

import copy
from collections.abc import Callable
from math import cos, log, log2, pi
from typing import Any, NamedTuple

import torch
from gpytorch.likelihoods import Likelihood
from jaxtyping import Bool, Float, Int
from torch import Tensor

from actgp.likelihoods import adapter_of
from actgp.models.networks import Networks
from actgp.tables.clock import Clock
from actgp.training.lbfgs import maximise

RATE, BETAS = 0.04, (0.9, 0.95)
DECAYS = (0.0, 0.03)  # of weights, in AdamW: a group of networks for each
STRETCHES = (1.0, 3.0)  # of the frequencies of each group's waves
FACTORS_RATE, BIASES_RATE = 6.0, 0.1  # relative
CYCLES = 4
NUM_INNER = 2  # matrices between hidden layers
BATCH_SIZE = 128
VALIDATE_EVERY = 25
MOST_VALIDATED = 1_000  # rows of a fold
SHARES_SD, NUM_STEPS = 0.5, 30  # of the prior of what groups count for, and of L-BFGS


class CrossFit(NamedTuple):
    """What came of it.

    Attributes:
        networks: One of each group for each fold.
        left_out: For each row, what the networks say, blended, that have not seen it.
        error: Its mean squared error, or cross-entropy.
    """

    networks: Networks
    left_out: Float[Tensor, "N P"]
    error: float


class Task(NamedTuple):
    """What networks are trained to say.

    Attributes:
        targets: Real numbers, or labels.
        num_outputs: P, of the networks.
        loss: Of outputs and targets, for each row, both with any number of axes before.
        shares: What the outputs of two groups, [2, N, P], count for, given all targets.
    """

    targets: Tensor
    num_outputs: int
    loss: Callable[[Tensor, Tensor], Tensor]
    shares: Callable[[Tensor, Tensor], Tensor]


def regression(y: Float[Tensor, "N P"]) -> Task:
    """The least squares."""
    return Task(y.float(), y.shape[1], lambda f, y: (f - y).square().mean(-1), blending_shares)


def classification(y: Tensor, likelihood: Likelihood, num_outputs: int) -> Task:
    """The least cross-entropy of labels, as `adapter_of(likelihood)` has them."""
    adapter = adapter_of(likelihood)

    def loss(f: Tensor, labels: Tensor) -> Tensor:
        rows = f.flatten(0, -2)  # of all networks
        return -adapter.conditional_log_prob(rows, labels.reshape(len(rows), *y.shape[1:])).view(f.shape[:-1])

    def shares(f: Tensor, labels: Tensor) -> Tensor:
        return most_probable_shares(f, lambda blend: -loss(blend, labels).sum())

    return Task(y, num_outputs, loss, shares)


def rate_at(t: float) -> float:
    """The factor of learning rates."""
    return 0.5 * (1 - cos(2 * pi * log2(1 + (2**CYCLES - 1) * t)))


@torch.enable_grad()
def cross_fit(
    X: Float[Tensor, "N D"],
    task: Task,
    num_networks: int,
    num_steps: int,
    clock: Clock,
    generator: torch.Generator,
    report: Callable[[float], None] = lambda _: None,
) -> CrossFit:
    """Trains networks in single precision.

    Args:
        X: Inputs.
        task: What they are to say.
        num_networks: K, as many as there are folds; there are as many of each group.
        num_steps: Of AdamW, for all of them together.
        clock: What time there is: rates fall as it goes by, and steps end with it.
        generator: Draws weights, folds and the order of rows.
        report: Called after each step with the score of left-out rows, as it was last found.
    """
    N, K, G = len(X), num_networks, len(DECAYS)
    inputs, targets = X.float(), task.targets
    networks = Networks(G * K, X.shape[1], task.num_outputs, num_inner=NUM_INNER, num_groups=G, generator=generator)
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
    score, best = 0.0, torch.full((G,), float("inf"), device=X.device)
    kept = copy.deepcopy(networks.state_dict())
    batches = Shuffled(others.repeat(G, 1), min(BATCH_SIZE, fewest), generator)
    for step in range(num_steps):
        done = max((step + 0.5) / num_steps, clock.seconds / clock.budget)
        if done >= 1 and step > 0:
            break
        rate = rate_at(min(done, 1.0))
        for group in optimiser.param_groups:
            group["lr"] = group["initial_lr"] * rate
        rows = batches.next().to(X.device)  # [G K, B]
        loss = task.loss(networks(inputs[rows]), targets[rows]).mean(1).sum()
        optimiser.zero_grad()
        loss.backward()
        with torch.no_grad():
            for weights in (networks.first, networks.inner, networks.last):
                weights.mul_(1 - RATE * rate * decay)
        optimiser.step()
        if (step + 1) % VALIDATE_EVERY == 0 or step in (0, num_steps - 1):
            with torch.no_grad():
                errors = task.loss(networks(inputs[judged]), targets[judged]).mean(1).view(G, K).mean(1)
            _keep(networks, kept, (errors < best).repeat_interleave(K))
            best = torch.minimum(best, errors)
            score = -best.mean().item()
        report(score)
    networks.load_state_dict(kept)
    left_out = torch.empty(G, N, task.num_outputs, device=X.device)
    with torch.no_grad():
        for k, fold in enumerate(folds):
            left_out[:, fold] = networks(inputs[fold])[k::K]
    networks.shares.copy_(task.shares(left_out, targets))
    with torch.no_grad():
        blend = networks.blend(left_out)[0]
        return CrossFit(networks.eval(), blend, task.loss(blend, targets).mean().item())


def blending_shares(f: Float[Tensor, "2 N P"], y: Float[Tensor, "N P"]) -> Float[Tensor, " 2"]:
    """s of the least ‖y − s f₁ − (1 − s) f₂‖², between zero and one."""
    first, second = f
    difference = first - second
    share = ((y - second) * difference).sum() / difference.square().sum().clamp_min(torch.finfo(y.dtype).tiny)
    share = share.clamp(0.0, 1.0)
    return torch.stack([share, 1 - share])


def most_probable_shares(f: Float[Tensor, "2 N P"], log_likelihood: Callable[[Tensor], Tensor]) -> Float[Tensor, " 2"]:
    """s = exp(a) of the largest log p(y | Σ_g s_g f_g) − ½ ‖a − log ½‖² / .5²: a temperature for logits, too."""
    a = torch.full((len(f),), -log(len(f)), dtype=torch.float64, device=f.device, requires_grad=True)

    def objective() -> Tensor:
        blend = torch.tensordot(a.exp(), f.double(), dims=1)
        return log_likelihood(blend) - 0.5 * ((a + log(len(f))) / SHARES_SD).square().sum()

    maximise([a], objective, NUM_STEPS)
    return a.detach().exp()


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
