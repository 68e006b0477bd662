"""For a teacher that is not looked into: a network that learns its means, beside a GP that knows near from far.

    mean = μ(x),     unexplained = k(x, x) − Σ A²,     explained = ‖A S‖²,     for M points among the rows

k is an arc-cosine kernel on standardised columns; S is that of a regression on what the teacher says at places x_i,
values of variance v_i. Everything is computed in single precision.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from actgp.distil.features import Standardised
from actgp.distil.heads import SmallNetwork
from actgp.distil.learn import learn_means
from actgp.distil.teacher import Answers, Labels
from actgp.distil.trunk import Along, GaussianNoise, Trunk
from actgp.features import InducingPoints, centres
from actgp.kernels import ArcCosine
from actgp.layers import GPLayer
from actgp.likelihoods import ContaminatedGaussianLikelihood
from actgp.models import DeepGP
from actgp.training.regression import Given, posterior, regress

NUM_POINTS, WIDTH = 64, 128
STEPS = 2  # of learning the means, for each of the head
SMALLEST_NOISE, OUTLIERS = 2e-6, 8.0
TINY = 1e-6
SEED = 0


class LearntTrunk(nn.Module):
    """Means that were learnt, and the variances and noise of a GP of one layer.

    Args:
        points: The GP.
        x: Standardises what the network is given.
        network: μ.
    """

    def __init__(self, points: DeepGP, x: Standardised, network: SmallNetwork) -> None:
        super().__init__()
        self.points, self.x, self.network = Trunk(points), x, network

    @property
    def noise(self) -> GaussianNoise:
        """That of the GP."""
        return self.points.noise

    def forward(self, h: Float[Tensor, "N D"]) -> Along:
        along: Along = self.points(h)
        return along._replace(mean=self.network(self.x(h)))


def stand_in(
    rows: Float[Tensor, "N D"],
    asked: Float[Tensor, "Q D"],
    answers: Answers,
    num_steps: int,
    generator: torch.Generator,
) -> tuple[DeepGP, LearntTrunk]:
    """The GP, whose means are zero, and the trunk.

    Args:
        rows: Rows of data.
        asked: Where the teacher was asked.
        answers: What it said there; of labels, the logarithms of probabilities are means.
        num_steps: As the head learns.
        generator: Source of randomness.
    """
    if isinstance(answers, Labels):
        logits = answers.probabilities.clamp_min(TINY).log()
        means, variances = logits - logits.mean(1, keepdim=True), torch.ones_like(logits)
        noise = 1.0
    else:
        means, variances = answers.mean(), answers.epistemic + answers.aleatoric
        noise = max(SMALLEST_NOISE, answers.aleatoric.median().item())
    points = _points(rows.double(), asked.double(), variances.double(), noise).float()
    x = Standardised(rows.float(), place=True)
    network = SmallNetwork(rows.shape[1], means.shape[1], WIDTH, generator)
    learn_means(network, x(asked.float()), means, variances, STEPS * num_steps, generator)
    return points, LearntTrunk(points, x, network)


@torch.no_grad()
def _points(
    rows: Float[Tensor, "N D"], asked: Float[Tensor, "Q D"], variances: Float[Tensor, "Q P"], noise: float
) -> DeepGP:
    kernel, likelihood = ArcCosine(rows.shape[1]), ContaminatedGaussianLikelihood()
    spread = rows.std(0, correction=0)
    kernel.lengthscale = torch.where(spread > TINY, spread, torch.ones_like(spread))
    likelihood.noise, likelihood.outlier_noise = noise, OUTLIERS * noise  # to begin with
    points = InducingPoints(centres(rows, min(NUM_POINTS, len(rows)), SEED))
    layer = GPLayer(kernel, points, variances.shape[1]).double()
    weights, one = 1 / variances.mean(1), variances.new_ones(())
    found = posterior(regress([Given(layer.whiten(asked), torch.zeros_like(variances), weights)]), one, one)
    layer.q.assign(found.mean, found.scale_tril.expand(layer.num_outputs, -1, -1))
    return DeepGP([layer], likelihood)
