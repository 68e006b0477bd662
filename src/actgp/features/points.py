"""Classic inducing points, u_m = f(z_m), and where they may begin: at the centres of clusters of rows."""

import importlib
import warnings
from typing import Any, ClassVar, TypeGuard

import torch
from gpytorch.kernels import Kernel
from jaxtyping import Float, Float64
from torch import Tensor, nn

from actgp import checks
from actgp.features.base import InducingFeatures, covariance
from actgp.features.units import Shapes, Units
from actgp.kernels import ZonalKernel
from actgp.persistence import Sizes, savable
from actgp.sphere import lift

APART = 1e-3  # of the spread of the rows: what keeps centres of repeated rows from falling together


def is_zonal(kernel: Kernel) -> TypeGuard[ZonalKernel]:
    """Whether a kernel is zonal in all columns of X, so that its inducing points are hidden units."""
    return isinstance(kernel, ZonalKernel) and kernel.active_dims is None and not kernel.batch_shape


@savable
class InducingPoints(InducingFeatures):
    """u_m = f(z_m): Kuu = k(Z, Z), Kuf = k(Z, X), for any gpytorch kernel.

    Args:
        locations: Z, [M, D]; a learnable parameter.

    Example:
        >>> import actgp, torch
        >>> points = actgp.InducingPoints(torch.randn(5, 2))
        >>> points.Kuf(actgp.ArcCosine(2), torch.randn(7, 2)).shape
        torch.Size([5, 7])
    """

    SIZES: ClassVar[Sizes] = {"locations": ("num_inducing", "input_dim")}

    def __init__(self, locations: Float[Tensor, "M D"]) -> None:
        super().__init__()
        checks.tensor(locations, "locations")
        columns = max(1, locations.shape[-1]) if locations.ndim else 1
        checks.inputs(locations, columns, "locations")
        self.locations = nn.Parameter(locations.detach().clone())

    def config(self) -> dict[str, Any]:
        return {}

    @property
    def num_inducing(self) -> int:
        return self.locations.shape[0]

    @property
    def input_dim(self) -> int:
        return self.locations.shape[1]

    def Kuu(self, kernel: Kernel) -> Float64[Tensor, "M M"]:
        if (units := self.units(kernel)) is not None:
            return covariance(units)
        Kuu: Tensor = kernel(self.locations.double()).to_dense()
        return Kuu

    def cross(self, kernel: Kernel, X: Float[Tensor, "N D"]) -> Float[Tensor, "M N"]:
        Kuf: Tensor = kernel(self.locations.to(X), X).to_dense()
        return Kuf

    def units(self, kernel: Kernel) -> Units | None:
        """k(z, x) = (v r_z) r s(ẑ · x̂)."""
        if not is_zonal(kernel):
            return None
        lifted = lift(self.locations / kernel.lengthscale)
        return Units(kernel.lengthscale, kernel.variance, lifted, Shapes(None, 0, kernel))

    def complaints(self, kernel: Kernel) -> list[str]:
        return []

    def extra_repr(self) -> str:
        return f"num_inducing={self.num_inducing}, input_dim={self.input_dim}"


def centres(X: Float[Tensor, "N D"], number: int, seed: int) -> Float[Tensor, "K D"]:
    """Centres of clusters of rows, no two the same."""
    rows = X.detach().cpu().double()
    g = torch.Generator().manual_seed(seed)
    if len(rows) > number:
        # only now: importing scikit-learn takes as long as importing torch
        cluster, exceptions = (importlib.import_module(f"sklearn.{name}") for name in ("cluster", "exceptions"))
        clusters = cluster.MiniBatchKMeans(number, random_state=seed % 2**32, n_init=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", exceptions.ConvergenceWarning)  # rows that repeat give fewer clusters
            chosen = torch.from_numpy(clusters.fit(rows.numpy()).cluster_centers_)
    else:
        chosen = rows[torch.arange(number) % len(rows)]
    spread = rows.std(0, correction=0).clamp_min(APART)
    return (chosen + APART * spread * torch.randn(chosen.shape, generator=g, dtype=torch.float64)).to(X)
