"""Several networks of one shape, evaluated together: an ensemble that costs hardly more than one of its members.

Each is an MLP of SiLU units, in the neural tangent parametrisation (Jacot et al., 2018): with n inputs to a layer,

    x_{l+1} = silu(W x_l / √n + b),     W_ij ~ N(0, 1)

so that one learning rate suits layers of any width. Before that, columns are centred at their medians, divided by a
robust scale, and bent smoothly, z / √(1 + (z/3)²): values far outside neither saturate units nor dominate gradients.
Each network then scales each column by a factor of its own, which is learnt, quickly, and finds the columns that count
(RealMLP; Holzmüller et al., 2024).
"""

from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from actgp.autocast import full_precision
from actgp.persistence import Sizes, savable

BENT = 3.0  # robust scales from the median, where columns are bent
SMALLEST_SPREAD = 1e-9


@savable
class Networks(nn.Module):
    """K networks, D inputs, `depth` hidden layers of H units, P outputs each; weights are random, outputs zero.

    Args:
        num_networks: K.
        input_dim: D.
        num_outputs: P.
        width: H.
        num_inner: Matrices between hidden layers, one fewer than there are hidden layers.
        generator: Draws weights; torch's global one by default.
    """

    SIZES: ClassVar[Sizes] = {
        "factors": ("num_networks", 1, "input_dim"),
        "inner": ("num_inner", "num_networks", "width", "width"),
        "last": ("num_networks", "width", "num_outputs"),
    }
    centre: Tensor
    spread: Tensor

    def __init__(
        self,
        num_networks: int,
        input_dim: int,
        num_outputs: int = 1,
        width: int = 128,
        num_inner: int = 1,
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        K, D, H, P = num_networks, input_dim, width, num_outputs
        self.register_buffer("centre", torch.zeros(D))
        self.register_buffer("spread", torch.ones(D))
        self.factors = nn.Parameter(torch.ones(K, 1, D))
        self.first = nn.Parameter(torch.randn(K, D, H, generator=generator))
        self.inner = nn.Parameter(torch.randn(num_inner, K, H, H, generator=generator))
        self.biases = nn.Parameter(0.5 * torch.randn(num_inner + 1, K, 1, H, generator=generator))
        self.last = nn.Parameter(torch.zeros(K, H, P))
        self.last_bias = nn.Parameter(torch.zeros(K, 1, P))

    def config(self) -> dict[str, Any]:
        """All sizes are seen from the tensors (`persistence`)."""
        return {}

    @property
    def num_networks(self) -> int:
        """K."""
        return len(self.factors)

    @property
    def input_dim(self) -> int:
        """D."""
        return self.factors.shape[2]

    @property
    def num_outputs(self) -> int:
        """P."""
        return self.last.shape[2]

    @torch.no_grad()
    def scale_to(self, X: Float[Tensor, "N D"]) -> None:
        """Takes medians and spreads of columns from rows: half the distance of the quartiles over 0.67, that is σ.

        Where the quartiles are one value, as in a column of mostly zeros, the standard deviation takes their place.
        """
        lower, median, upper = X.double().quantile(X.new_tensor([0.25, 0.5, 0.75]).double(), dim=0)
        robust, sd = (upper - lower) / 1.349, X.double().std(0, correction=0)
        spread = torch.where(robust > SMALLEST_SPREAD * sd, robust, sd)
        self.centre.copy_(median)
        self.spread.copy_(torch.where(spread > SMALLEST_SPREAD, spread, 1.0))

    @full_precision
    def forward(self, X: Float[Tensor, "*K N D"]) -> Float[Tensor, "K N P"]:
        """Each network's outputs, at rows of its own [K, N, D], or at the same rows for all, [N, D]."""
        z = (X - self.centre) / self.spread
        x = z * (1 + (z / BENT).square()).rsqrt() * self.factors
        first, *others = self.biases
        x = nn.functional.silu(_affine(x, self.first, first))
        for W, b in zip(self.inner, others, strict=True):
            x = nn.functional.silu(_affine(x, W, b))
        return _affine(x, self.last, self.last_bias)


def _affine(x: Float[Tensor, "K N n"], W: Float[Tensor, "K n m"], b: Float[Tensor, "K 1 m"]) -> Float[Tensor, "K N m"]:
    """W x / √n + b."""
    return torch.baddbmm(b, x, W, alpha=W.shape[1] ** -0.5)
