"""Matérn kernels by products, roots and exponentials, which every program that runs ONNX has.

    k(x, z) = v p(s) exp(−s),     s = √(2ν) ‖(x − z) / ℓ‖,     p = 1, 1 + s, 1 + s + s²/3 for ν = 1/2, 3/2, 5/2

GPyTorch's looks at whether x and z are equal, and at the mean of a batch: neither can be exported.
"""

import torch
from gpytorch.kernels import Kernel, MaternKernel, ScaleKernel
from jaxtyping import Float
from torch import Tensor, nn

POWERS = {0.5: (1.0,), 1.5: (1.0, 1.0), 2.5: (1.0, 1.0, 1 / 3)}  # coefficients of p, of s⁰ first


class Matern(nn.Module):
    """x ↦ k(x, z) for given z, as a kernel is now.

    Args:
        kernel: A Matérn kernel, with a scale or without.
        locations: z, [M, D].
    """

    lengthscale: Tensor
    variance: Tensor
    centre: Tensor
    points: Tensor
    squares: Tensor
    coefficients: Tensor

    @torch.no_grad()
    def __init__(self, kernel: Kernel, locations: Float[Tensor, "M D"]) -> None:
        super().__init__()
        base = kernel.base_kernel if isinstance(kernel, ScaleKernel) else kernel
        assert isinstance(base, MaternKernel)
        one = locations.new_ones(())
        values = {"lengthscale": base.lengthscale.detach().to(locations) / (2 * base.nu) ** 0.5}  # [1, D]
        values["variance"] = kernel.outputscale.detach().to(locations) if isinstance(kernel, ScaleKernel) else one
        values["centre"] = locations.mean(0)  # squares are small beside distances from there
        z = (locations - values["centre"]) / values["lengthscale"]
        values |= {"points": z.T.contiguous(), "squares": z.square().sum(1)}
        values["coefficients"] = locations.new_tensor(POWERS[base.nu])
        for name, value in values.items():
            self.register_buffer(name, value.clone())

    def forward(self, X: Float[Tensor, "N D"]) -> Float[Tensor, "N M"]:
        x = (X - self.centre) / self.lengthscale
        s = (x.square().sum(1, keepdim=True) + self.squares - 2 * (x @ self.points)).clamp_min(0.0).sqrt()
        p = sum((c * s**k for k, c in enumerate(self.coefficients[1:], start=1)), self.coefficients[0])
        return self.variance * p * (-s).exp()


def is_matern(kernel: Kernel) -> bool:
    """Whether a kernel is one of these."""
    base = kernel.base_kernel if isinstance(kernel, ScaleKernel) else kernel
    return isinstance(base, MaternKernel) and base.nu in POWERS and base.active_dims is None
