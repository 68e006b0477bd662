"""How far the logits of a converted classifier are believed: a temperature, and less of it away from the data."""

import torch
from torch import Tensor

from actgp.autocast import full_precision
from actgp.convert.anchor import Anchor
from actgp.convert.forgetting import Forgetting, Softening
from actgp.convert.perturbed import perturbed
from actgp.convert.reading import ROWS, check_rows
from actgp.features import InducingPoints
from actgp.likelihoods import adapter_of, targets
from actgp.models import DeepGP
from actgp.several import GivenRows, Rows, gathered

MOST_ROWS = 1_000  # they go through the network several times


@full_precision
@torch.no_grad()
def soften(model: DeepGP, X: GivenRows, y: Tensor, *, generator: torch.Generator | None = None) -> Softening:
    """Divides the logits of a converted classifier by a temperature, and by more away from the data, before `fit`.

    Which class is most probable does not change. The temperature, and how it grows with what is unlike among the data,
    are chosen by held-out rows; how much more is divided by away from the data by what becomes of them when their
    entries are swapped and rows are blended, too: the largest mean log-likelihood, with the loss of rows as they are
    growing by at most 1 %, and that of none of the others by more than 3 %.

    Args:
        model: From `convert`, changed in place.
        X: Inputs of rows that the network was not trained on; the first 1,000 are perturbed.
        y: Their labels.
        generator: Source of how rows are perturbed; torch's global one by default.

    Returns:
        What was chosen.

    Example:
        >>> import actgp, torch
        >>> net, X = torch.nn.Linear(2, 3), torch.randn(100, 2)
        >>> labels = torch.randint(3, (100,))
        >>> model, report = actgp.convert(net, X, labels)
        >>> softening = actgp.soften(model, X, labels)
    """
    if not isinstance(model, DeepGP) or not isinstance(model.backbone, Anchor):
        raise TypeError(f"model must be what convert returns, got {type(model).__name__}; convert a network first")
    if not adapter_of(model.likelihood).has_temperature:
        raise ValueError(
            f"logits are softened for labels, got a model with {type(model.likelihood).__name__}; give held-out rows "
            "to fit, which chooses the width of predictions by them"
        )
    anchor, (layer,) = model.backbone, model.gp_layers
    seed = int(torch.randint(2**31, (), generator=generator))
    rows = gathered(X)
    check_rows(anchor.network, rows)
    labels = targets(model.likelihood, y, len(rows), layer.num_outputs, model.dtype)
    device = layer.q.raw_mean.device
    anchor.forgetting = None  # of an earlier call

    def seen(version: Rows) -> tuple[Tensor, Tensor]:
        z, mu = layer.split(torch.cat([anchor(part.to(device)) for part in version.split(ROWS)]))
        assert mu is not None
        return z, mu

    assert isinstance(layer.features, InducingPoints)
    forgetting = Forgetting(layer.features.locations.detach())
    versions = map(seen, perturbed(rows[:MOST_ROWS], torch.Generator().manual_seed(seed)))
    found = forgetting.choose(seen(rows), labels.to(device), versions, model.likelihood)
    anchor.forgetting = forgetting
    return found
