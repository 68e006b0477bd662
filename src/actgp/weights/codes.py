"""What one GP layer hands to the next: few numbers in place of a wide hidden layer.

Between two activations a network has z = W σ + b, with W of H' × H. A GP layer outputs codes h = C (σ − μ), and the
next one takes z ≈ B h + (W μ + b). With Σ the covariance of σ on the data, and G = E[Jᵀ J] that of the slopes
J = ∂output/∂z, the change of the output is E‖J (W − BC) (σ − μ)‖² ≈ ‖G^½ (W − BC) Σ^½‖², smallest for the truncated
singular value decomposition

    G^½ W Σ^½ = U diag(s) Qᵀ,     C = diag(c) Q_Rᵀ Σ^(−½),     B = W Σ^½ Q_R diag(c)⁻¹.

The scales c of the codes are free. c = (s/s_1)^½ puts the first code at unit variance, and the others in between
their importance and equality.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor

from actgp.weights.head import Dense, Head

SMALLEST_SCALE = 1e-3
SMALLEST_VARIANCE = 1e-12


@dataclass(frozen=True)
class Codes:
    """The factors of one linear map between activations.

    Attributes:
        C: From units to codes.
        mean: μ, the mean of the units.
        following: h ↦ B h + (W μ + b), what the next layer's units take.
        energy: The part of Σ s² that is kept.
    """

    C: Float64[Tensor, "R H"]
    mean: Float64[Tensor, " H"]
    following: Dense
    energy: float

    def __call__(self, hidden: Float64[Tensor, "N H"]) -> Float64[Tensor, "N R"]:
        """C (σ − μ) for each row."""
        return (hidden - self.mean) @ self.C.T


def encode(head: Head, depth: int, hidden: Float64[Tensor, "N H"], energy: float, most: int) -> Codes:
    """Factorises the map that follows activation number `depth`.

    Args:
        head: The network.
        depth: Which activation.
        hidden: The values of its units on data.
        energy: The part of Σ s² to keep.
        most: The largest R, whatever part it keeps.
    """
    dense = head.dense[depth + 1]
    mean = hidden.mean(0)
    root, inverse_root = _roots((hidden - mean).T @ (hidden - mean) / len(hidden))
    slopes, _ = _roots(_slopes(head, depth + 1, dense(hidden)))
    _, s, Qt = torch.linalg.svd(slopes @ dense.W @ root, full_matrices=False)
    shares = s.square() / s.square().sum().clamp_min(torch.finfo(s.dtype).tiny)
    kept = shares.cumsum(0)
    R = min(int((kept < energy).sum()) + 1, most, len(s))
    scales = (s[:R] / s[0].clamp_min(torch.finfo(s.dtype).tiny)).sqrt().clamp_min(SMALLEST_SCALE)
    C = scales[:, None] * (Qt[:R] @ inverse_root)  # [R, H]
    B = dense.W @ root @ Qt[:R].T / scales  # [H', R]
    return Codes(C, mean, Dense(B, dense(mean[None])[0]), float(kept[R - 1]))


def _slopes(head: Head, depth: int, Z: Float64[Tensor, "N H"]) -> Float64[Tensor, "H H"]:
    """G = E[Jᵀ J] with J = ∂output/∂z, summed over outputs."""
    Z = Z.detach().requires_grad_()
    with torch.enable_grad():
        outputs = head.after(depth, Z)
        gradients = [torch.autograd.grad(column.sum(), Z, retain_graph=True)[0] for column in outputs.T]
    return sum((J.T @ J for J in gradients), torch.zeros_like(gradients[0].T @ gradients[0])) / len(Z)


def _roots(K: Float64[Tensor, "H H"]) -> tuple[Tensor, Tensor]:
    """K^½, and K^(−½) on the subspace where K is not zero."""
    values, vectors = torch.linalg.eigh(K)
    values = values.clamp_min(0.0)
    inverse = torch.where(values > SMALLEST_VARIANCE * values[-1], values, torch.inf).rsqrt()
    return (vectors * values.sqrt()) @ vectors.T, (vectors * inverse) @ vectors.T
