"""What BoTorch draws functions of zonal kernels with: φ(x)ᵀφ(x') ≈ k(x, x').

    φ_j(x) = √(v/F) r h_j(ω_j · x̂),    ω_j uniform on the sphere                        (`kernels.random_shapes`)

Registered with BoTorch's `gen_kernel_features`, so that `SingleTaskGP` with one of these kernels, too, has pathwise
samples.
"""

import torch
from botorch.sampling.pathwise.features.generators import GenKernelFeatures
from botorch.sampling.pathwise.features.maps import FeatureMap
from jaxtyping import Float64
from torch import Tensor, nn

from actgp.kernels import ZonalKernel


class ZonalFeatureMap(FeatureMap):
    """F random features of a zonal kernel.

    Args:
        kernel: The kernel, without batch_shape.
        num_outputs: F.

    Example:
        >>> import actgp, torch
        >>> from actgp.botorch import ZonalFeatureMap
        >>> phi = ZonalFeatureMap(actgp.ArcCosine(input_dim=2).double(), num_outputs=100)
        >>> phi(torch.rand(7, 2, dtype=torch.float64)).shape
        torch.Size([7, 100])
    """

    num_outputs: int
    batch_shape: torch.Size

    def __init__(self, kernel: ZonalKernel, num_outputs: int) -> None:
        if kernel.batch_shape:
            raise ValueError(
                f"functions are drawn of a kernel without batch_shape, got {list(kernel.batch_shape)}; build one model "
                "for each outcome"
            )
        super().__init__()
        self.kernel, self.num_outputs, self.batch_shape = kernel, num_outputs, torch.Size([])
        self.input_transform, self.output_transform = nn.Identity(), nn.Identity()
        self.shapes = kernel.random_shapes(num_outputs)
        frequencies = torch.randn(num_outputs, kernel.dimension, dtype=torch.float64)
        self.register_buffer("frequencies", nn.functional.normalize(frequencies, dim=-1))

    def forward(self, X: Float64[Tensor, "*b N D"]) -> Float64[Tensor, "*b N F"]:
        """φ(x)."""
        if self.kernel.active_dims is not None:
            X = X[..., self.kernel.active_dims]
        radius, direction = self.kernel.polar(X)
        t = direction @ self.frequencies.to(X).T  # [*b, N, F]
        waves = self.shapes(t.flatten(0, -2).T).T.view(t.shape)
        return (self.kernel.variance / self.num_outputs).sqrt() * radius.unsqueeze(-1) * waves


@GenKernelFeatures.register(ZonalKernel)  # type: ignore[untyped-decorator]
def _zonal_features(kernel: ZonalKernel, *, num_inputs: int, num_outputs: int) -> ZonalFeatureMap:
    return ZonalFeatureMap(kernel, num_outputs)
