"""What the GP around a network sees, chosen by training images that neither the network nor the GP has seen.

They are judged as they are and under shifts that are not among those tested: smaller, moved, of less contrast, with
salt. Unlike images that are not tested either tell how well the unexplained variance knows them: quarters in another
order, and negatives.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from actgp.convert import convert, soften
from actgp.models import DeepGP
from actgp_experiments.images.bench import Bench, in_parts
from actgp_experiments.images.cells import some_images
from actgp_experiments.images.contestants import ROWS_TO_CONVERT
from actgp_experiments.images.networks import Networks
from actgp_experiments.images.settings import ImageSettings
from actgp_experiments.metrics import class_scores, separation
from actgp_experiments.shifts import SHIFTS, shift
from actgp_experiments.store import Record, revision

CHOOSING = ("shrink", "translate", "contrast", "salt")
MOST_IMAGES = 500
SEED = 7


@dataclass(frozen=True)
class Option:
    """What may be chosen.

    Attributes:
        layers: Whose outputs the GP sees beside what enters the last Linear layer.
        num_inducing: Its inducing points.
    """

    layers: tuple[str, ...]
    num_inducing: int


DENSE, BLOCKS = "1.0", ("0.12", "0.17")  # the first dense layer; the residual blocks
POOLED = "0.6"  # the second pooling
GREY = [
    Option((), 200),
    Option((DENSE,), 200),
    Option((POOLED, DENSE), 200),
    Option((POOLED, DENSE), 100),
    Option(("0.3", POOLED, DENSE), 200),
]
OPTIONS = {
    "mnist": GREY,
    "fashion_mnist": GREY,
    "cifar10": [
        Option((), 200),
        Option(BLOCKS[:1], 200),
        Option(("0.8", *BLOCKS[:1]), 200),
    ],
}


def run_choices(data: str, seed: int, settings: ImageSettings, folder: Path) -> Iterator[Record]:
    """The scores of each option, and of the network alone."""
    torch.set_num_threads(1)
    code = revision()
    bench = Bench(Networks(some_images(data, settings), settings, folder), seed)
    networks = bench.networks
    rows = networks.rows(seed)
    X, y = networks.images.X_train, networks.images.y_train
    some, held, chosen = rows.train[:ROWS_TO_CONVERT], rows.calibration, rows.choice[:MOST_IMAGES]
    for option in OPTIONS[data]:
        g = torch.Generator().manual_seed(seed)
        model, _ = convert(bench.network, X[some], y[some], **asdict(option), generator=g)
        if option == OPTIONS[data][0]:
            yield {"data": data, "seed": seed, "option": None, **_judge(model, X[chosen], y[chosen]), "revision": code}
        found = soften(model, X[held], y[held], generator=g)
        yield {
            "data": data,
            "seed": seed,
            "option": asdict(option),
            "softening": found._asdict(),
            **_judge(model, X[chosen], y[chosen]),
            "revision": code,
        }


@torch.no_grad()
def _judge(model: DeepGP, X: Tensor, y: Tensor) -> Record:
    """Scores of softmax(mean), as they are and on average over the levels of each shift."""
    head = DeepGP(model.gp_layers, model.likelihood)

    def seen(images: Tensor) -> tuple[Tensor, Tensor]:
        assert model.backbone is not None
        h = in_parts(model.backbone, images)
        return head.mean(h).softmax(-1), head.unexplained(h)

    p, near = seen(X)
    found: Record = {"clean": class_scores(p, y).metrics, "shifts": {}, "separation": {}}
    for name in CHOOSING:
        levels = [seen(shift(X, name, level, SEED)) for level in SHIFTS[name].levels[1:]]
        scores = [class_scores(p, y).metrics["log_likelihood"] for p, _ in levels]
        found["shifts"][name] = sum(scores) / len(scores)
        found["separation"][name] = sum(separation(near, far) for _, far in levels) / len(levels)
    for name, images in (("quarters", _quarters(X)), ("negatives", 1 - X)):
        found["separation"][name] = separation(near, seen(images)[1])
    return found


def _quarters(X: Tensor) -> Tensor:
    """Each quarter at the opposite corner."""
    H, W = X.shape[-2:]
    return X.roll((H // 2, W // 2), (2, 3))
