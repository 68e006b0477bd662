"""Targets that are rounded, such as marks and counts: their noise is not to become narrower than the rounding.

A density may be as high as it likes at a whole number. If all targets are whole numbers, noise that shrinks around
those that happen to be met is worth any number of nats, and predictions become a row of spikes. A value that was
rounded to steps of δ is off by up to δ/2, with variance δ²/12: less noise than that cannot be learnt from it.

Not all targets with few values are rounded; a simulation may have been run for fifty settings of what is to be
inferred. So noise is bounded only if the network cannot tell neighbouring values apart: if its error is above δ/2.
"""

import torch
from gpytorch.constraints import GreaterThan
from jaxtyping import Float
from torch import Tensor

from actgp.models import DeepGP
from actgp.training.data import Batch, Batches
from actgp.training.scales import has_free_noise, set_noise

REPEATED = 0.5  # the part of the rows whose value occurs again, from which on targets are taken for rounded


@torch.no_grad()
def bound_noise_by_rounding(model: DeepGP, batches: Batches, held_out: Batch | None) -> None:
    """Raises the lower bound of Gaussian noise to the variance of rounding, if the network's error says so.

    Noise that is frozen, or whose constraint is not gpytorch's `GreaterThan`, is left alone.

    Args:
        model: The model after stage 1.
        batches: What it is trained on.
        held_out: Rows to judge the network by, if there are any: it may know the others by heart.
    """
    if not has_free_noise(model):
        return
    constraint = model.likelihood.noise_covar.raw_noise_constraint
    step = min(rounding_step(column) for column in torch.cat([y for _, y in batches.all()]).T)  # they share their noise
    if step == 0.0 or type(constraint) is not GreaterThan:
        return
    judges = batches.all() if held_out is None else (held_out,)
    errors = torch.cat([(model.mean(X).reshape(y.shape) - y).square() for X, y in judges])
    if errors.mean().item() > (step / 2) ** 2:
        noise = model.likelihood.noise.item()
        constraint.lower_bound.clamp_min_(step**2 / 12)
        set_noise(model, noise)


def rounding_step(y: Float[Tensor, " N"]) -> float:
    """δ: how far the nearest other value is from that of half of the rows; 0 where most values occur only once."""
    values, counts = y.unique(return_counts=True)
    if len(values) < 2 or counts[counts > 1].sum() < REPEATED * len(y):
        return 0.0
    gaps = values.diff()
    nearest = torch.minimum(torch.cat([gaps[:1], gaps]), torch.cat([gaps, gaps[-1:]]))
    return nearest.repeat_interleave(counts).median().item()
