"""Targets that are rounded, such as marks and counts: their noise is not to become narrower than the rounding.

A density may be as high as it likes at a whole number. If all targets are whole numbers, noise that shrinks around
those that happen to be met is worth any number of nats, and predictions become a row of spikes. A value that was
rounded to steps of δ is off by up to δ/2, with variance δ²/12: less noise than that cannot be learnt from it.

Not all targets with few values are rounded; a simulation may have been run for fifty settings of what is to be
inferred. So noise is bounded only if the network cannot tell neighbouring values apart: if it is off by more than δ/2
on more rows than outliers account for.
"""

import copy

import torch
from gpytorch.constraints import GreaterThan
from jaxtyping import Float
from torch import Tensor

from actgp.models import DeepGP
from actgp.training.calibrate import has_free_noise, set_noise
from actgp.training.data import Batch, Batches

REPEATED = 0.5  # the part of the values that occur again, from which on targets are taken for rounded
CONFUSED = 0.2  # the part of the rows that are nearer to another value, from which on these cannot be told apart
ROUND_OFF = 8  # units in the last place of the largest value: values that are closer are the same


@torch.no_grad()
def bound_noise_by_rounding(model: DeepGP, batches: Batches, held_out: Batch | None) -> None:
    """Raises the lower bound of Gaussian noise to the variance of rounding, if the network's errors say so.

    Left alone are noise that is frozen or has a constraint other than gpytorch's `GreaterThan`, and models whose mean
    has not been trained.

    Args:
        model: The model after stage 1.
        batches: What it is trained on.
        held_out: Rows to judge the network by, if there are any: it may know the others by heart.
    """
    if not has_free_noise(model) or not model.gp_layers[-1].q.mean.any():
        return
    noise = model.likelihood.noise_covar
    targets = torch.cat([y for _, y in batches.all()])
    step = min(rounding_step(column) for column in targets.T)  # outputs share their noise: the finest counts
    if step == 0.0 or type(noise.raw_noise_constraint) is not GreaterThan:
        return
    judges = batches.all() if held_out is None else (held_out,)
    errors = torch.cat([(model.mean(X).reshape(y.shape) - y).abs() for X, y in judges])
    if (errors > step / 2).double().mean() > CONFUSED:
        before = model.likelihood.noise.item()
        own = copy.deepcopy(noise.raw_noise_constraint)  # other models may share it
        own.lower_bound.clamp_min_(step**2 / 12)
        noise.register_constraint("raw_noise", own)
        set_noise(model, before)


def rounding_step(y: Float[Tensor, " N"]) -> float:
    """δ: how far the nearest other value is from that of half of the rows; 0 where most values occur only once."""
    y = y.sort().values
    same = ROUND_OFF * torch.finfo(y.dtype).eps * y.abs().max()
    is_new = torch.cat([torch.ones_like(y[:1], dtype=torch.bool), y.diff() > same])
    values, counts = y[is_new], is_new.cumsum(0).bincount()[1:]
    if len(values) < 2 or (counts > 1).double().mean() < REPEATED:
        return 0.0
    gaps = values.diff()
    nearest = torch.minimum(torch.cat([gaps[:1], gaps]), torch.cat([gaps, gaps[-1:]]))
    return nearest.repeat_interleave(counts).median().item()
