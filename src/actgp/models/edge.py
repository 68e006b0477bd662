"""Where the data end: beyond it a classifier's last layer forgets what it has learnt.

    R = 2 max_i r_i,     r_i = ‖[h_i / ℓ, 1]‖

h_i is what enters the last layer at row i of the data, by the means of the layers before it. At the outermost row the
horizon adds a sixty-thousandth of the kernel's own variance, further inside next to nothing (`actgp.layers.horizon`).
"""

import torch

from actgp.layers.horizon import check_horizon
from actgp.models.deep import DeepGP
from actgp.several import GivenRows

BEYOND = 2.0  # chosen by rows of banana's training part that were left out (`actgp run horizon`)


@torch.no_grad()
def forget_beyond(model: DeepGP, X: GivenRows) -> float:
    """Sets the horizon of a model's last layer by the rows that it was trained on.

    The mean does not change. Variances do, beyond the data: with the distance, every class becomes as probable as any
    other, and intervals of real outputs become as wide as one likes.

    Args:
        model: A trained deep GP, whose last layer has a zonal kernel; changed in place.
        X: The rows.

    Returns:
        R, the radius beyond which variances grow.

    Example:
        >>> import actgp, torch
        >>> model, X = actgp.deep_gp(2, num_layers=1), torch.randn(100, 2)
        >>> radius = actgp.forget_beyond(model, X)
    """
    *_, last = model.gp_layers
    check_horizon(last.kernel, 1.0)
    h = last.split(model.hidden_means(X)[-1])[0]
    last.horizon = check_horizon(last.kernel, BEYOND * last.kernel.polar(h).radius.max().item())
    return last.horizon
