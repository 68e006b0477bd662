"""What a user would put around a network of their own, by the names that tables use.

network             one variance, the mean squared error on validation rows: temperature scaling, for regression
Laplace, last layer; Laplace, Kronecker; ELLA    laplace-torch, see `laplaces`
MC dropout          a network trained with dropout (Gal and Ghahramani, 2016); noise by validation rows
VBLL                a variational last layer (Harrison et al., 2024), trained with the network as its tutorial does
deep ensemble       networks with a mean and a variance each (Lakshminarayanan et al., 2017): the expensive reference
convert             ours: `actgp.convert`, then `actgp.fit` with the validation rows as `held_out`
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from scipy.optimize import minimize_scalar
from torch import Tensor, nn
from torch.distributions import Normal
from torch.nn.functional import softplus

from actgp.convert import convert
from actgp.training import fit
from actgp_experiments.baselines.deep import predictive
from actgp_experiments.baselines.ensemble import SEED_STRIDE
from actgp_experiments.baselines.predictor import mixture
from actgp_experiments.bring.laplaces import ELLA, GaussNewton
from actgp_experiments.bring.networks import Loss, Networks, squared_error, train
from actgp_experiments.metrics import Predictive

try:
    import vbll
except ImportError:  # an optional peer
    vbll = None

SMALLEST_VARIANCE = 1e-6
LOWEST, HIGHEST = -14.0, 3.0  # log of a noise variance
OURS = "convert"

Predict = Callable[[Float[Tensor, "N D"]], Predictive]


class Bench:
    """The networks of a cell, and the CPU seconds of training them, beside which everything else is post hoc.

    Args:
        networks: Of the cell's rows, activation and depth.
        seed: Of everything random.

    Attributes:
        training: What training took, if only when the network was put into the folder.
        spent: What of it was spent now.
    """

    def __init__(self, networks: Networks, seed: int) -> None:
        self.networks, self.seed = networks, seed
        self.rows, self.settings = networks.rows, networks.settings
        self.training = self.spent = 0.0

    def network(self, dropout: float = 0.0) -> nn.Sequential:
        """Taken from the folder, or trained and put there."""
        began = time.process_time()
        found = self.networks.trained(self.seed, dropout)
        self.training += found.seconds
        self.spent += time.process_time() - began
        return found.network

    def train(self, network: nn.Module, seed: int, loss: Loss, **options: Any) -> None:
        """Trains a network of the contestant's own."""
        seconds = train(network, self.rows, self.settings, seed, loss, **options)
        self.training += seconds
        self.spent += seconds

    @contextmanager
    def drawn(self, seed: int) -> Iterator[None]:
        """Draws with torch's global generator come from a seed."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield


def plain(bench: Bench) -> Predict:
    """N(f, mean squared error on validation rows)."""
    network, rows = bench.network(), bench.rows
    with torch.no_grad():
        variance = squared_error(network, rows.X_validation, rows.y_validation).clamp_min(SMALLEST_VARIANCE)
    return lambda X: Normal(network(X)[:, 0], variance.sqrt().expand(len(X)))


def by_laplace(make: Callable[[], GaussNewton | ELLA]) -> Callable[[Bench], Predict]:
    """Around the network."""

    def build(bench: Bench) -> Predict:
        method = make()
        method.fit(bench.network(), bench.rows, bench.settings, bench.seed)
        return method.predict

    return build


def dropout(bench: Bench) -> Predict:
    """The mixture over masks."""
    network, rows, samples = bench.network(bench.settings.dropout), bench.rows, bench.settings.samples

    def passes(X: Tensor) -> Float[Tensor, "S N"]:
        with bench.drawn(bench.seed):
            network.train()
            means = torch.stack([network(X)[:, 0] for _ in range(samples)])
            network.eval()
        return means

    with torch.no_grad():
        means = passes(rows.X_validation)

    def loss(log_noise: float) -> float:
        noise = torch.full_like(means, log_noise).exp()
        return -mixture(means, noise).log_prob(rows.y_validation[:, 0]).mean().item()

    log_noise = float(minimize_scalar(loss, bounds=(LOWEST, HIGHEST), method="bounded").x)

    def predict(X: Tensor) -> Predictive:
        found = passes(X)
        return mixture(found, torch.full_like(found, log_noise).exp())

    return predict


def variational_last_layer(bench: Bench) -> Predict:
    """The network of the cell, its last layer a variational one; trained anew."""
    if vbll is None:
        raise ImportError("this contestant needs vbll, got none of it; install it with pip")
    rows, settings = bench.rows, bench.settings
    with bench.drawn(bench.seed):
        network = bench.networks.new()
        prior = {"prior_scale": 1.0, "wishart_scale": settings.wishart_scale}
        network[-1] = vbll.Regression(settings.units, 1, 1 / len(rows.X_train), **prior)
        bench.train(
            network,
            bench.seed,
            lambda net, X, y: net(X).train_loss_fn(y),
            validation_loss=lambda net, X, y: net(X).val_loss_fn(y),
            steps=settings.variational_steps,
            clip=settings.clip,
            undecayed=network[-1],
        )

    def predict(X: Tensor) -> Predictive:
        found: Any = network(X).predictive
        return Normal(found.mean[:, 0], found.variance[:, 0].sqrt())

    return predict


def ensemble(bench: Bench) -> Predict:
    """The equal mixture of members."""
    members = []
    for i in range(bench.settings.members):
        seed = bench.seed + SEED_STRIDE * (i + 1)
        with bench.drawn(seed):
            member = bench.networks.new(outputs=2)
        bench.train(member, seed, negative_log_likelihood)
        members.append(member)

    def predict(X: Tensor) -> Predictive:
        outputs = torch.stack([member(X) for member in members])  # [K, N, 2]
        return mixture(outputs[..., 0], softplus(outputs[..., 1]) + SMALLEST_VARIANCE)

    return predict


def negative_log_likelihood(network: nn.Module, X: Tensor, y: Float[Tensor, "N 1"]) -> Tensor:
    """Of a mean and a variance for each row."""
    outputs = network(X)
    variance = softplus(outputs[:, 1]) + SMALLEST_VARIANCE
    return -Normal(outputs[:, 0], variance.sqrt(), validate_args=False).log_prob(y[:, 0]).mean()


def ours(bench: Bench) -> Predict:
    """One call each, as documented."""
    rows, g = bench.rows, torch.Generator().manual_seed(bench.seed)
    model, _ = convert(bench.network(), rows.X_train, rows.y_train, generator=g)
    held_out = (rows.X_validation, rows.y_validation)
    fit(model, rows.X_train, rows.y_train, held_out=held_out, generator=g, progress=False)
    return lambda X: predictive(model, X, samples=1)


CONTESTANTS: dict[str, Callable[[Bench], Predict]] = {
    "network": plain,
    "Laplace, last layer": by_laplace(lambda: GaussNewton("last_layer", "full")),
    "Laplace, Kronecker": by_laplace(lambda: GaussNewton("all", "kron")),
    "MC dropout": dropout,
    "VBLL": variational_last_layer,
    "ELLA": by_laplace(ELLA),
    "deep ensemble": ensemble,
    OURS: ours,
}
ONE_SEED = ("deep ensemble", "VBLL")  # those that take longest: seed 0 is enough for a reference
