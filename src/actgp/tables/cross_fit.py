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
from actgp.models.networks import Networks, bent
from actgp.tables.clock import Clock
from actgp.training.lbfgs import maximise

RATE, BETAS = 0.04, (0.9, 0.95)
DECAYS = (0.0, 0.03)  # of weights, in AdamW: a group of networks for each
STRETCHES = (1.0, 3.0)  # of the frequencies of each group's waves
FACTORS_RATE, BIASES_RATE = 6.0, 0.1  # relative
CYCLES = 4
NUM_INNER = 2  # matrices between hidden layers
BATCH_SIZES, FEW_ROWS = (64, 128), 500  # up to so many rows, and beyond
VALIDATE_EVERY = 25
MOST_VALIDATED = 500  # rows of a fold
PART_ON_ALL, RATE_ON_ALL, RISING = 0.25, 0.2, 0.1  # of all steps; of the rate; the part of them in which it rises
LEAST_ERROR = 0.25  # what all networks' squared error is at least taken for, beside that of one of each group
ROWS = 2_048  # of each network that are left out at a time
SHARES_SD, NUM_STEPS = 0.5, 30  # of the prior of what groups count for, and of L-BFGS


class CrossFit(NamedTuple):
    """What came of it.

    Attributes:
        networks: One of each group for each fold.
        left_out: For each row, what the networks say, blended, that have not seen it.
        error: Its mean squared error, or cross-entropy.
        is_cut_short: Whether there was not the time for all steps.
    """

    networks: Networks
    left_out: Float[Tensor, "N P"]
    error: float
    is_cut_short: bool


class Task(NamedTuple):
    """What networks are trained to say.

    Attributes:
        targets: Real numbers, or labels.
        num_outputs: P, of the networks.
        loss: Of outputs and targets, for each row, both with any number of axes before.
        shares: What the outputs of two groups, [2, N, P], count for, given all targets.
        together: Of left-out outputs of two groups, shares, targets and K: what all networks would say of a row.
    """

    targets: Tensor
    num_outputs: int
    loss: Callable[[Tensor, Tensor], Tensor]
    shares: Callable[[Tensor, Tensor], Tensor]
    together: Callable[[Tensor, Tensor, Tensor, int], Tensor]


def regression(y: Float[Tensor, "N P"]) -> Task:
    """The least squares."""
    return Task(y.float(), y.shape[1], lambda f, y: (f - y).square().mean(-1), blending_shares, together)


def classification(y: Tensor, likelihood: Likelihood, num_outputs: int) -> Task:
    """The least cross-entropy of labels, as `adapter_of(likelihood)` has them."""
    adapter = adapter_of(likelihood)

    def loss(f: Tensor, labels: Tensor) -> Tensor:
        rows = f.flatten(0, -2)  # of all networks
        return -adapter.conditional_log_prob(rows, labels.reshape(len(rows), *y.shape[1:])).view(f.shape[:-1])

    def shares(f: Tensor, labels: Tensor) -> Tensor:
        return most_probable_shares(f, lambda blend: -loss(blend, labels).sum())

    def blend(f: Tensor, shares: Tensor, labels: Tensor, num_blends: int) -> Tensor:
        return torch.tensordot(shares, f, dims=1)

    return Task(y, num_outputs, loss, shares, blend)


def rate_at(t: float) -> float:
    """The factor of learning rates."""
    return 0.5 * (1 - cos(2 * pi * log2(1 + (2**CYCLES - 1) * t)))


def rate_on_all(t: float) -> float:
    """The same for the steps on all rows."""
    return RATE_ON_ALL * min(t / RISING, 0.5 * (1 + cos(pi * (t - RISING) / (1 - RISING))))


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
    inputs, targets = bent(X.float()), task.targets
    networks = Networks(G * K, X.shape[1], task.num_outputs, num_inner=NUM_INNER, num_groups=G, generator=generator)
    with torch.no_grad():
        networks.frequencies.mul_(torch.tensor(STRETCHES).repeat_interleave(K).view(-1, 1, 1, 1))
    networks.to(X.device)
    seen, unseen = folds(N, K, G, generator)
    judged = unseen[:, : min(MOST_VALIDATED, N // K)]
    score, best = 0.0, torch.full((G,), float("inf"), device=X.device)
    best_steps = torch.zeros(G, dtype=torch.long)
    kept = copy.deepcopy(networks.state_dict())

    def validate(step: int, is_last: bool) -> None:
        nonlocal score, best
        if step == 0 or (step + 1) % VALIDATE_EVERY == 0 or is_last:
            with torch.no_grad():
                errors = task.loss(networks.of_bent(inputs[judged]), targets[judged]).mean(1).view(G, K).mean(1)
            _keep(networks, kept, (errors < best).repeat_interleave(K))
            best_steps[(errors < best).cpu()] = step
            best = torch.minimum(best, errors)
            score = -best.mean().item()
        report(score)

    first = Clock((1 - PART_ON_ALL) * clock.left)
    lengths = torch.full((G * K,), round((1 - PART_ON_ALL) * num_steps))
    is_cut_short = Descent(networks, inputs, task, generator).run(seen, lengths, rate_at, first, validate)
    networks.load_state_dict(kept)
    left_out = _left_out(networks, inputs, unseen)
    networks.shares.copy_(task.shares(left_out, targets))
    with torch.no_grad():
        said = task.together(left_out, networks.shares, targets, K)
        error = task.loss(said, targets).mean().item()
    lengths = (PART_ON_ALL / (1 - PART_ON_ALL) * best_steps).long().repeat_interleave(K)
    every = torch.arange(N).expand(G * K, N)
    last = Descent(networks, inputs, task, generator)
    is_cut_short |= last.run(every, lengths, rate_on_all, clock, lambda *_: report(score))
    return CrossFit(networks.eval(), said, error, is_cut_short)


class Folds(NamedTuple):
    """Rows of each network: each group is cut into folds of its own.

    Attributes:
        seen: Those that it is trained on, all but its fold.
        unseen: Its fold; the first row stands twice where a fold is smaller than others.
    """

    seen: Int[Tensor, "GK n"]
    unseen: Int[Tensor, "GK m"]


def folds(N: int, K: int, G: int, generator: torch.Generator) -> Folds:
    """K folds of N rows for each of G groups."""
    m, seen, unseen = -(-N // K), [], []
    for _ in range(G):
        order = torch.randperm(N, generator=generator)
        parts = [order[k::K] for k in range(K)]
        for k, fold in enumerate(parts):
            seen.append(torch.cat(parts[:k] + parts[k + 1 :])[: N - m])
            unseen.append(torch.cat([fold, fold[: m - len(fold)]]))
    return Folds(torch.stack(seen), torch.stack(unseen))


class Descent:
    """AdamW for all networks side by side, each with minibatches of its own.

    Args:
        networks: What is trained.
        inputs: All rows, bent.
        task: What they are to say.
        generator: Shuffles rows.
    """

    def __init__(
        self, networks: Networks, inputs: Float[Tensor, "N D"], task: Task, generator: torch.Generator
    ) -> None:
        self.networks, self.inputs, self.task, self.generator = networks, inputs, task, generator
        self.optimiser = torch.optim.AdamW(_groups(networks), lr=RATE, betas=BETAS, weight_decay=0.0, fused=True)
        K = networks.num_blends
        self.decay = inputs.new_tensor(DECAYS).repeat_interleave(K).view(-1, 1, 1)  # of each network

    def run(
        self,
        rows: Int[Tensor, "GK n"],
        lengths: Int[Tensor, " GK"],
        rate_at: Callable[[float], float],
        clock: Clock,
        after: Callable[[int, bool], None],
    ) -> bool:
        """Takes steps, and says whether time ended it.

        Args:
            rows: Of each network.
            lengths: How many steps each network takes, if there is time.
            rate_at: The factor of learning rates at t from 0 to 1, how much of its steps or of the time has gone by.
            clock: What time there is; one step is taken in any case.
            after: Called after each step with its number, and whether it is the last of the steps.
        """
        batch_size = BATCH_SIZES[len(self.inputs) > FEW_ROWS]
        batches = Shuffled(rows, min(batch_size, rows.shape[1]), self.generator)
        num_steps = int(lengths.max())
        for step in range(num_steps):
            gone = clock.seconds / clock.budget
            if gone >= 1 and step > 0:
                return True
            done = [max((step + 0.5) / max(length, 1), gone) for length in lengths.tolist()]
            rates = self.inputs.new_tensor([rate_at(t) if t < 1 else 0.0 for t in done])
            self._step(batches.next().to(self.inputs.device), rates)
            after(step, step == num_steps - 1)
        return False

    def _step(self, batch: Int[Tensor, "GK B"], rates: Float[Tensor, " GK"]) -> None:
        """One of AdamW, with rates of its own for each network."""
        parameters = dict(self.networks.named_parameters())
        rate = rates.max()
        relative = rates / rate.clamp_min(torch.finfo(rates.dtype).tiny)
        before = {name: p.detach().clone() for name, p in parameters.items()} if (relative < 1).any() else {}
        for group in self.optimiser.param_groups:
            group["lr"] = group["initial_lr"] * rate.item()
        loss = self.task.loss(self.networks.of_bent(self.inputs[batch]), self.task.targets[batch]).mean(1).sum()
        self.optimiser.zero_grad()
        loss.backward()
        with torch.no_grad():
            for W in (self.networks.first, self.networks.inner, self.networks.last):
                W.mul_(1 - RATE * rate * self.decay)
        self.optimiser.step()
        with torch.no_grad():
            for name, old in before.items():
                new = _by_network(name, parameters[name])
                new.copy_(_by_network(name, old).lerp(new, relative.view(-1, *(1,) * (new.ndim - 1))))


@torch.no_grad()
def _left_out(networks: Networks, inputs: Float[Tensor, "N D"], unseen: Int[Tensor, "GK m"]) -> Float[Tensor, "G N P"]:
    """What the network of each group says of a row that has not seen it."""
    K, P = networks.num_blends, networks.num_outputs
    found = inputs.new_empty(len(networks.shares), len(inputs), P)
    for rows in unseen.split(ROWS, dim=1):
        for group, said, own in zip(found, networks.of_bent(inputs[rows]).split(K), rows.split(K), strict=True):
            group[own.flatten()] = said.flatten(0, 1)
    return found


def together(
    f: Float[Tensor, "2 N P"], shares: Float[Tensor, " 2"], y: Float[Tensor, "N P"], num_blends: int
) -> Float[Tensor, "N P"]:
    """Left-out predictions with the errors of the mean of K blends, where f are those of one of them.

    Of networks that differ by chance, with variance V_g in each group, the mean is nearer to y than each: with the same
    error β² beside it in both groups,

        E (y − f_g)² = β² + V_g,     E (f₁ − f₂)² = V₁ + V₂,     E (y − Σ s_g f_g)² = e² + Σ s_g² V_g

    and the mean of K such sums has e² + Σ s_g² V_g / K. Errors are scaled accordingly.
    """
    D = (f[0] - f[1]).square().mean(0)
    V = (0.5 * (D + (y - f).square().mean(1) - (y - f.flip(0)).square().mean(1))).clamp_min(0.0)  # [2, P]
    r = y - torch.tensordot(shares, f, dims=1)
    gained = (1 - 1 / num_blends) * shares.square() @ V
    ratio = 1 - gained / r.square().mean(0).clamp_min(torch.finfo(y.dtype).tiny)
    return y - ratio.clamp_min(LEAST_ERROR).sqrt() * r


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
