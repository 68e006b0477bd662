"""Several networks of one shape, evaluated together: an ensemble that costs hardly more than one of its members.

Each is an MLP of SiLU units, in the neural tangent parametrisation (Jacot et al., 2018): with n inputs to a layer,

    x_{l+1} = silu(W x_l / √n + b),     W_ij ~ N(0, 1)

so that one learning rate suits layers of any width. Before that, standardised columns are bent, z = 2 asinh(x/2):
values far outside count for less, and still tell rows apart. A few waves of each column, mixed by weights of its own,
are put beside it, as units that see one column alone, and follow steps in it:

    e = C cos(2π F z + φ) + c,     F ~ N(0, 0.1²),     φ uniform

All of these are scaled by factors that are learnt, quickly, and find the columns that count (RealMLP; Holzmüller et
al., 2024; Gorishniy et al., 2022).

Networks may come in groups that are trained in different ways. The k-th of each group are then blended,
Σ_g s_g μ_gk(x).
"""

from math import pi
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from actgp.autocast import full_precision
from actgp.persistence import Sizes, savable

BENT = 2.0  # standard deviations, from which on columns are bent
NUM_WAVES, NUM_MIXED = 8, 3  # of each column
FREQUENCY = 0.1  # their scale, in waves for each standard deviation


@savable
class Networks(nn.Module):
    """G K networks, D inputs, hidden layers of H units, P outputs each; weights are random, outputs zero.

    Args:
        num_networks: G K, those of the first group first.
        input_dim: D.
        num_outputs: P.
        width: H.
        num_inner: Matrices between hidden layers, one fewer than there are hidden layers.
        num_groups: G.
        generator: Draws weights; torch's global one by default.
    """

    SIZES: ClassVar[Sizes] = {
        "frequencies": ("num_networks", "input_dim", 1, NUM_WAVES),
        "inner": ("num_inner", "num_networks", "width", "width"),
        "last": ("num_networks", "width", "num_outputs"),
        "shares": ("num_groups",),
    }
    shares: Tensor

    def __init__(
        self,
        num_networks: int,
        input_dim: int,
        num_outputs: int = 1,
        width: int = 128,
        num_inner: int = 1,
        num_groups: int = 1,
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        K, D, H, P = num_networks, input_dim, width, num_outputs
        self.register_buffer("shares", torch.full((num_groups,), 1 / num_groups))
        W, E = NUM_WAVES, NUM_MIXED
        self.frequencies = nn.Parameter(FREQUENCY * torch.randn(K, D, 1, W, generator=generator))
        self.phases = nn.Parameter(2 * pi * torch.rand(K, D, 1, W, generator=generator))
        self.mixing = nn.Parameter(torch.randn(K, D, W, E, generator=generator) / W**0.5)
        self.mixing_bias = nn.Parameter(torch.zeros(K, D, 1, E))
        self.factors = nn.Parameter(torch.ones(K, 1, D * (1 + E)))
        self.first = nn.Parameter(torch.randn(K, D * (1 + E), H, generator=generator))
        self.inner = nn.Parameter(torch.randn(num_inner, K, H, H, generator=generator))
        self.biases = nn.Parameter(0.5 * torch.randn(num_inner + 1, K, 1, H, generator=generator))
        self.last = nn.Parameter(torch.zeros(K, H, P))
        self.last_bias = nn.Parameter(torch.zeros(K, 1, P))

    def config(self) -> dict[str, Any]:
        """All sizes are seen from the tensors (`persistence`)."""
        return {}

    @property
    def num_networks(self) -> int:
        """G K."""
        return len(self.factors)

    @property
    def num_blends(self) -> int:
        """K."""
        return len(self.factors) // len(self.shares)

    @property
    def input_dim(self) -> int:
        """D."""
        return self.frequencies.shape[1]

    @property
    def num_outputs(self) -> int:
        """P."""
        return self.last.shape[2]

    @full_precision
    def forward(self, X: Float[Tensor, "*K N D"]) -> Float[Tensor, "K N P"]:
        """Each network's outputs, at rows of its own [K, N, D], or at the same rows for all, [N, D]."""
        return self.of_bent(bent(X))

    @full_precision
    def of_bent(self, z: Float[Tensor, "*K N D"]) -> Float[Tensor, "K N P"]:
        """The same of columns that are bent already: for training, which sees each row many times."""
        x = beside_waves(z, self.frequencies, self.phases, self.mixing, self.mixing_bias) * self.factors
        first, *others = self.biases
        x = nn.functional.silu(_affine(x, self.first, first))
        for W, b in zip(self.inner, others, strict=True):
            x = nn.functional.silu(_affine(x, W, b))
        return _affine(x, self.last, self.last_bias)

    def blended(self, X: Float[Tensor, "N D"]) -> Float[Tensor, "K N P"]:
        """What groups say together."""
        return self.blend(self(X))

    def blend(self, outputs: Float[Tensor, "GK *N P"]) -> Float[Tensor, "K *N P"]:
        """Σ_g s_g μ_gk."""
        return torch.tensordot(self.shares, outputs.unflatten(0, (len(self.shares), -1)), dims=1)


def bent(X: Float[Tensor, "*N D"]) -> Float[Tensor, "*N D"]:
    """z."""
    return BENT * torch.asinh(X / BENT)


def beside_waves(
    z: Float[Tensor, "*K N D"],
    frequencies: Float[Tensor, "K D 1 W"],
    phases: Float[Tensor, "K D 1 W"],
    mixing: Float[Tensor, "K D W E"],
    bias: Float[Tensor, "K D 1 E"],
) -> Float[Tensor, "K N F"]:
    """z, and e of each column, for each network: F = D + D E."""
    z = z.expand(len(mixing), *z.shape[-2:])
    t = 2 * pi * z.transpose(1, 2).unsqueeze(-1) * frequencies + phases  # [K, D, N, W]
    e = t.cos() @ mixing + bias  # [K, D, N, E]
    return torch.cat([z, e.permute(0, 2, 1, 3).flatten(2)], dim=-1)


def _affine(x: Float[Tensor, "K N n"], W: Float[Tensor, "K n m"], b: Float[Tensor, "K 1 m"]) -> Float[Tensor, "K N m"]:
    """W x / √n + b."""
    return torch.baddbmm(b, x, W, alpha=W.shape[1] ** -0.5)
