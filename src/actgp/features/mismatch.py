"""What is lost where an activation's spectrum does not fit a kernel's, in words, each with its remedy."""

import torch
from jaxtyping import Float64
from torch import Tensor

from actgp.activations import Activation
from actgp.features.match import SpectralMatch

LOST_WARNING = 0.01
MISSING_WARNING = 0.02
UPPER_NORM_WARNING = 0.25
LEVELS_TO_JUDGE_NORM = 8
OVERSHOOT_WARNING = 10.0
GRID = 101  # points at which max |σ| is sought


def mismatches(match: SpectralMatch, activation: Activation, *, beside_points: bool) -> list[str]:
    """What features with an activation lose under a kernel; empty for spectra that fit.

    Args:
        match: The spectra of both.
        activation: The activation.
        beside_points: Whether inducing points explain what the units leave of the prior.
    """
    if not match.shared.any():
        raise ValueError(
            f"activation and kernel must share a level, got none among the first {match.num_levels}; "
            "raise num_levels, or use MatchedKernel with this activation"
        )
    found = [*_overshooting(match, activation), *_lost(match)]
    return found if beside_points else [*found, *_unexplained(match, activation)]


def overshoots(activation: Activation, dimension: int, num_levels: int) -> Float64[Tensor, " L"]:
    """What the activation, cut after 1, 2, … levels, is at t = ±1 at most, relative to max |σ|.

    Between two random directions of many dimensions t is small, and there the series converges. At t = ±1 that of a
    kinked or sharp activation does so only after many more levels than dimensions: until then it grows with each.
    """
    a = activation.energies(dimension, num_levels).detach()
    at_one, at_minus_one = a.cumsum(0), (a * (-1.0) ** torch.arange(len(a), device=a.device)).cumsum(0)
    t = torch.linspace(-1.0, 1.0, GRID, dtype=torch.float64, device=a.device)
    largest = torch.maximum(activation(t).detach().abs().max(), a[0].abs())  # a_0 is a mean of σ
    largest = largest.clamp_min(torch.finfo(torch.float64).tiny)
    return torch.maximum(at_one.abs(), at_minus_one.abs()) / largest


def _overshooting(match: SpectralMatch, activation: Activation) -> list[str]:
    found = overshoots(activation, match.dimension, match.num_levels)
    if not found[-1] > OVERSHOOT_WARNING:
        return []
    enough = int((found <= OVERSHOOT_WARNING).nonzero()[-1]) + 1  # one level never overshoots
    return [
        f"the activation, cut after {match.num_levels} levels in {match.dimension - 1} dimensions, is "
        f"{found[-1].item():.2g} times too large at t = ±1, for inputs along a unit's weights, and its norm "
        f"hides what it explains; use num_levels={enough}, or a smoother activation (Softplus, or a smaller beta)"
    ]


def _lost(match: SpectralMatch) -> list[str]:
    """What is lost of the activation."""
    found = []
    if match.lost > LOST_WARNING:
        found.append(
            f"{match.lost:.1%} of the activation lies on levels that the kernel does not have, and is dropped; "
            "use MatchedKernel with this activation, or an activation whose levels the kernel has"
        )
    if match.num_levels >= LEVELS_TO_JUDGE_NORM and match.upper_norm > UPPER_NORM_WARNING:
        found.append(
            f"the features' RKHS norm has not converged: {match.upper_norm:.0%} of its square is on the upper half "
            "of the levels, so that a finer truncation explains less; use a smoother activation (Softplus, or a "
            "smaller beta), or fewer levels"
        )
    return found


def _unexplained(match: SpectralMatch, activation: Activation) -> list[str]:
    """What is lost of the prior, unless something else explains it."""
    found = []
    if match.missing > MISSING_WARNING:
        found.append(
            f"{match.missing:.1%} of the prior variance lies on levels that the activation does not have, and stays "
            "unexplained however many inducing variables there are; use MatchedKernel with this activation"
        )
    if match.truncated > MISSING_WARNING:
        # The energies of two more levels may take seconds to find.
        has_room = overshoots(activation, match.dimension, match.num_levels + 2)[-1] <= OVERSHOOT_WARNING
        remedy = (
            "more levels (num_levels)"
            if has_room
            else "inducing points beside the units (DecoupledFeatures), or a smoother activation with more levels"
        )
        found.append(
            f"{match.truncated:.1%} of the prior variance lies beyond the {match.num_levels} levels that are kept, "
            f"and stays unexplained; use {remedy}"
        )
    return found
