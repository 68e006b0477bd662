"""Two classes in two dimensions: networks of some depths and their deep GPs, on held-out data and far from all data.

The network is the deep GP's own, as it was at the end of the first stage, trained on the cross-entropy.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from gpytorch.likelihoods import BernoulliLikelihood
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, log_loss
from torch import Tensor

from actgp import plots
from actgp.estimators.defaults import HORIZON
from actgp.models import deep_gp
from actgp.training import Recipe, fit

FAR = 100.0  # standard deviations
DIRECTIONS = 72


class Labelled(NamedTuple):
    """Points and their classes, 0 or 1."""

    X: Tensor
    y: Tensor


@dataclass(frozen=True)
class Study:
    """What is compared, and how.

    Attributes:
        train: Data, with inputs in standard units.
        test: Held-out data.
        depths: How many layers.
        num_inducing: Of each layer.
        recipe: Of training.
        extent: Half the side of the square in which probabilities are drawn.
        resolution: Points along the side.
        seed: Of everything random.
    """

    train: Labelled
    test: Labelled
    depths: tuple[int, ...]
    num_inducing: int
    recipe: Recipe
    extent: float = 4.0
    resolution: int = 81
    seed: int = 0

    @property
    def axis(self) -> NDArray[np.float64]:
        """Of the square grid."""
        return np.linspace(-self.extent, self.extent, self.resolution)

    @property
    def plane(self) -> Tensor:
        """The grid's points: [resolution², 2]."""
        return torch.from_numpy(np.stack(np.meshgrid(self.axis, self.axis), axis=-1).reshape(-1, 2))


class Score(NamedTuple):
    """How a model does.

    Attributes:
        depth: Its layers.
        model: "network" or "deep GP".
        accuracy: On held-out data.
        log_likelihood: On held-out data.
        entropy_far: The mean entropy, in bits, a hundred standard deviations from the data, all around.
        doubt_far: The mean of |p − ½| there: zero for a model that knows that it does not know.
        surface: p(y = 1), [resolution, resolution].
    """

    depth: int
    model: str
    accuracy: float
    log_likelihood: float
    entropy_far: float
    doubt_far: float
    surface: NDArray[np.float64]


def compare(study: Study) -> Iterator[Score]:
    """Trains a model of each depth, and judges it as a network and as a deep GP."""
    angles = torch.arange(DIRECTIONS, dtype=torch.float64) * (2 * torch.pi / DIRECTIONS)
    far = FAR * torch.stack([angles.cos(), angles.sin()], dim=-1)
    places = study.test.X, far, study.plane
    for depth in study.depths:
        generator = torch.Generator().manual_seed(study.seed)
        model = deep_gp(
            2,
            num_layers=depth,
            num_inducing=study.num_inducing,
            num_points=0,  # units alone, as in the paper: in the plane they explain the prior
            kernel="matched",
            likelihood=BernoulliLikelihood(),
            horizon=HORIZON,
            generator=generator,
        ).double()
        network = fit(model, *study.train, study.recipe, generator=generator).network
        assert network is not None
        with torch.no_grad():
            yield _score(study, depth, "network", *(torch.special.ndtr(network(X)) for X in places))
        yield _score(study, depth, "deep GP", *(model.predict(X).mean for X in places))


def draw(path: Path, study: Study, scores: Sequence[Score]) -> Path:
    """p(y = 1) over a plane much larger than the data: networks on the left, their deep GPs on the right."""
    X, y = study.train
    axis, depths = study.axis, len(study.depths)
    with plots.style():
        figure = plots.figure(6.6, 3.0 * depths)
        panels = figure.subplots(depths, 2, sharex=True, sharey=True, squeeze=False)
        for axes, score in zip(panels.flat, scores, strict=True):
            image = axes.contourf(axis, axis, score.surface, np.linspace(0, 1, 21), cmap=plots.DIVERGING, alpha=0.75)
            axes.contour(axis, axis, score.surface, levels=[0.5], colors=plots.BLACK, linewidths=0.8)
            for label, colour in ((0, plots.BLUE), (1, plots.VERMILION)):
                points = X[y == label].numpy()
                axes.plot(*points.T, "o", color=colour, markersize=2.6, markeredgecolor="white", markeredgewidth=0.3)
            layers = "1 layer" if score.depth == 1 else f"{score.depth} layers"
            log_likelihood = f"{score.log_likelihood:.3f}".replace("-", "−")
            axes.set(title=f"{score.model}, {layers}: {log_likelihood}")
            axes.set_aspect("equal")
            axes.grid(visible=False)
        about = (
            "Dots: training points, blue for y = 0, orange for y = 1. In the titles: log-likelihood of held-out points."
        )
        plots.caption(figure, about)
        figure.colorbar(image, ax=panels, label="p(y = 1)", ticks=[0, 0.25, 0.5, 0.75, 1], shrink=0.6)
        columns = ("x1", "x2", *(f"{score.model}_{score.depth}".replace(" ", "_") for score in scores))
        rows = np.column_stack([study.plane.numpy(), *(score.surface.reshape(-1) for score in scores)]).tolist()
        return plots.save(figure, path, columns, rows)


def _score(study: Study, depth: int, model: str, p: Tensor, far: Tensor, surface: Tensor) -> Score:
    y, p1 = study.test.y.numpy(), p.numpy()
    clipped = far.clamp(1e-12, 1 - 1e-12)
    entropy = -(clipped * clipped.log2() + (1 - clipped) * (1 - clipped).log2())
    return Score(
        depth,
        model,
        float(accuracy_score(y, p1 > 0.5)),
        -float(log_loss(y, p1)),
        entropy.mean().item(),
        (far - 0.5).abs().mean().item(),
        surface.numpy().reshape(study.resolution, study.resolution),
    )
