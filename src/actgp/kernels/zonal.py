"""Zonal kernels, k(x, x') = v r r' s(x̂ · x̂'), as gpytorch kernels.

x̃ = [x / ℓ, 1], r = ‖x̃‖, x̂ = x̃ / r. On the sphere the shape s has the Mercer series Σ_n k_n P_n(t) with energies
k_n ≥ 0; the radius is linear, as in the paper (eq. 5), whatever the shape.
"""

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

import torch
from gpytorch.constraints import Positive
from gpytorch.kernels import Kernel
from jaxtyping import Float, Float64
from torch import Tensor, nn

from actgp import checks
from actgp.autocast import full_precision
from actgp.kernels.random_shapes import RandomShapes, series_shape
from actgp.persistence import Sizes
from actgp.sphere import Polar, lift, project


class ZonalKernel(Kernel):
    """A kernel on R^D with ARD lengthscales ℓ, a variance v and a shape function s on [−1, 1].

    Args:
        input_dim: D, the number of inputs; the sphere lives in R^d with d = D + 1.
        batch_shape: gpytorch's batch shape: one set of lengthscales and one variance for each element.
        active_dims: gpytorch's: the D columns of X to use, where X has more.

    Example:
        >>> import actgp, torch
        >>> kernel = actgp.ArcCosine(input_dim=2)
        >>> isinstance(kernel, actgp.ZonalKernel), kernel.shape(torch.tensor([-1.0, 0.0, 1.0]))
        (True, tensor([0.0000, 0.3183, 1.0000]))
    """

    SIZES: ClassVar[Sizes] = {"raw_lengthscale": (1, "input_dim")}
    has_lengthscale = True
    is_stationary = False  # gpytorch takes any kernel with a lengthscale for stationary

    def __init__(
        self,
        input_dim: int,
        *,
        batch_shape: torch.Size | None = None,
        active_dims: Sequence[int] | None = None,
    ) -> None:
        input_dim = checks.integer(input_dim, "input_dim", minimum=1)
        batch_shape = torch.Size([]) if batch_shape is None else torch.Size(batch_shape)
        # Through exp, raw parameters at zero are lengthscales and a variance of exactly one, in every precision.
        super().__init__(
            ard_num_dims=input_dim,
            batch_shape=batch_shape,
            active_dims=None if active_dims is None else tuple(active_dims),
            lengthscale_constraint=_positive(),
        )
        self.input_dim = input_dim
        self.register_parameter("raw_variance", nn.Parameter(torch.zeros(batch_shape)))
        self.register_constraint("raw_variance", _positive())

    def config(self) -> dict[str, Any]:
        """The arguments of its constructor, for files, except those that all kernels have (`persistence`)."""
        return {}

    @abstractmethod
    def shape(self, t: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """s(t), with s(1) = 1."""

    @abstractmethod
    def energies(self, dimension: int, num_levels: int) -> Float64[Tensor, " L"]:
        """k_n = λ_n N_n of the shape function, for n < Ñ, on the sphere of any dimension."""

    def shape_and_slope(self, t: Float[Tensor, "*shape"]) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
        """s(t) and s'(t), without gradients; t may be outside [−1, 1] by round-off."""
        with torch.enable_grad():
            inside = t.detach().clamp(-1.0, 1.0).requires_grad_()
            value = self.shape(inside)
            (slope,) = torch.autograd.grad(value.sum(), inside)
        return value.detach(), slope

    def shape_within(self, t: Float[Tensor, "*shape"], *, coincide: bool = False) -> Float[Tensor, "*shape"]:
        """s(t) for products of unit vectors, which round-off may carry past ±1: there clamp() would cut the gradient.

        Args:
            t: Products x̂ · x̂'.
            coincide: Whether rows and columns are the same vectors, so that the diagonal is exactly one.
        """
        exact = t.detach().clamp(-1.0, 1.0)
        if coincide:
            exact.diagonal(dim1=-2, dim2=-1).fill_(1.0)
        return self.shape(t + (exact - t.detach()) if t.requires_grad else exact)

    def random_shapes(self, num_features: int, *, generator: torch.Generator | None = None) -> RandomShapes:
        """What functions of the prior are drawn with; by default a series of as many levels as it takes."""
        return series_shape(self, self.dimension)

    @cached_property
    def learns_shape(self) -> bool:
        """Whether the shape has parameters, beside the lengthscales and the variance that every kernel has."""
        return len(list(self.parameters())) > 2

    @property
    def dimension(self) -> int:
        """d, the dimension of the space that holds the sphere: inputs and bias."""
        return self.input_dim + 1

    @property
    def variance(self) -> Float[Tensor, "*batch"]:
        """v, the kernel's value at r = r' = 1, x̂ = x̂'."""
        variance: Tensor = self.raw_variance_constraint.transform(self.raw_variance)
        return variance

    @variance.setter
    def variance(self, value: float | Tensor) -> None:
        value = torch.as_tensor(value).to(self.raw_variance)
        if not (value > 0).all():
            raise ValueError(f"variance must be positive, got {value.tolist()}; pass e.g. 1.0")
        self.initialize(raw_variance=self.raw_variance_constraint.inverse_transform(value))

    def polar(self, X: Float[Tensor, "*batch N D"]) -> Polar:
        """Inputs as points of the sphere: radius r and direction x̂ of [x / ℓ, 1]."""
        return project(lift(X / self.lengthscale))

    @full_precision
    def forward(
        self, x1: Tensor, x2: Tensor, diag: bool = False, last_dim_is_batch: bool = False, **params: Any
    ) -> Tensor:
        """What gpytorch calls: the matrix [*batch, N, M], or the vector [*batch, N] of k(x1_i, x2_i)."""
        if last_dim_is_batch:
            raise ValueError("last_dim_is_batch must be False, got True; use one kernel with batch_shape instead")
        r1, direction1 = self.polar(x1)
        r2, direction2 = (r1, direction1) if x1 is x2 else self.polar(x2)
        coincide = x1 is x2 or torch.equal(x1, x2)
        if diag:
            if x1 is x2:
                return self.variance.unsqueeze(-1) * r1.square()  # s(1) = 1
            t = (direction1 * direction2).sum(-1, keepdim=True).unsqueeze(-1)  # [N, 1, 1]
            shape = self.shape_within(t, coincide=coincide).flatten(-3)
            return self.variance.unsqueeze(-1) * r1 * r2 * shape
        radii = r1.unsqueeze(-1) * r2.unsqueeze(-2)  # [N, M]
        shape = self.shape_within(direction1 @ direction2.mT, coincide=coincide)
        return self.variance[..., None, None] * radii * shape

    def __call__(self, x1: Tensor, x2: Tensor | None = None, *args: Any, **kwargs: Any) -> Any:
        for x in (x1,) if x2 is None else (x1, x2):
            checks.tensor(x, "x")
            if self.active_dims is None and x.shape[-1] != self.input_dim and not (x.ndim == 1 and self.input_dim == 1):
                raise ValueError(
                    f"x must have shape [..., N, {self.input_dim}], got {list(x.shape)}; select "
                    f"{self.input_dim} columns, or build the kernel with input_dim={x.shape[-1]}"
                )
        return super().__call__(x1, x2, *args, **kwargs)


def _positive() -> Positive:
    return Positive(transform=torch.exp, inv_transform=torch.log)
