"""Explicit real spherical harmonics φ_nj in any dimension, from a fundamental system of points.

The N_n functions N_n P_n(z_i · x) span level n when the points z_i are in general position, and their inner
products are N_n P_n(z_i · z_j) = (L Lᵀ)_ij, because N_n P_n is the level's reproducing kernel. Hence

    φ_n(x) = L⁻¹ [N_n P_n(z_1 · x), …, N_n P_n(z_{N_n} · x)]

is orthonormal under ⟨f, g⟩ = (1/Ω) ∫ f g dω. The points are chosen greedily, by a pivoted Cholesky
decomposition of random candidates, which keeps L well conditioned.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from actgp import checks
from actgp.sphere.counting import num_harmonics
from actgp.sphere.gegenbauer import normalised_gegenbauer

MAX_HARMONICS = 5_000
CANDIDATES_PER_HARMONIC = 4
UNIT_TOLERANCE = 1e-4


class SphericalHarmonics:
    """The harmonics of levels 0, …, Ñ−1 on S^(d−1), ordered by level.

    Args:
        dimension: d ≥ 2.
        num_levels: Ñ ≥ 1; the largest level may have at most 5,000 harmonics.
        generator: Draws the candidate points; by default the same points every time.

    Example:
        >>> import actgp, torch
        >>> harmonics = actgp.SphericalHarmonics(dimension=3, num_levels=3)
        >>> harmonics(torch.nn.functional.normalize(torch.randn(7, 3), dim=1)).shape  # 1 + 3 + 5 of them
        torch.Size([7, 9])
    """

    def __init__(self, dimension: int, num_levels: int, *, generator: torch.Generator | None = None) -> None:
        self.dimension = checks.integer(dimension, "dimension", minimum=2)
        self.num_levels = checks.integer(num_levels, "num_levels", minimum=1)
        largest = num_harmonics(self.num_levels - 1, self.dimension)
        if largest > MAX_HARMONICS:
            raise ValueError(
                f"explicit harmonics need at most {MAX_HARMONICS} per level, got {largest} at level "
                f"{self.num_levels - 1} in dimension {self.dimension}; lower num_levels, or use zonal_series, "
                "which sums a level by the addition theorem"
            )
        generator = torch.Generator().manual_seed(0) if generator is None else generator
        self._systems = [_fundamental_system(n, self.dimension, generator) for n in range(self.num_levels)]

    @property
    def levels(self) -> list[int]:
        """The level n of each harmonic, in the order of the columns of `__call__`."""
        return [n for n, (points, _) in enumerate(self._systems) for _ in range(len(points))]

    def __call__(self, directions: Float[Tensor, "N d"]) -> Float[Tensor, "N J"]:
        """φ_nj at unit vectors: one row per point, one column per harmonic."""
        checks.tensor(directions, "directions")
        if directions.ndim != 2 or directions.shape[1] != self.dimension:
            raise ValueError(
                f"directions must have shape [N, {self.dimension}], got {list(directions.shape)}; "
                "pass points of the sphere in the dimension of the harmonics"
            )
        x = directions.double()
        largest = (x.norm(dim=-1) - 1).abs().max().item()
        if not largest < UNIT_TOLERANCE:
            raise ValueError(
                f"directions must be unit vectors, got one whose norm is off by {largest:.2g}; "
                "normalise them with torch.nn.functional.normalize"
            )
        columns = [
            torch.linalg.solve_triangular(L, _level_kernel(points, x, n), upper=False).T  # [N, N_n]
            for n, (points, L) in enumerate(self._systems)
        ]
        return torch.cat(columns, dim=-1).to(directions)


def _level_kernel(a: Float[Tensor, "A d"], b: Float[Tensor, "B d"], level: int) -> Float[Tensor, "A B"]:
    """N_n P_n(a · b), the reproducing kernel of a level."""
    d = a.shape[-1]
    t = (a @ b.T).clamp(-1.0, 1.0)
    return num_harmonics(level, d) * normalised_gegenbauer(t, d, level + 1)[..., level]


def _fundamental_system(level: int, dimension: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Points z_1, …, z_{N_n} in general position, and the Cholesky factor L of their Gram matrix."""
    count = num_harmonics(level, dimension)
    candidates = torch.randn(CANDIDATES_PER_HARMONIC * count + 16, dimension, dtype=torch.float64, generator=generator)
    candidates = torch.nn.functional.normalize(candidates, dim=-1)
    # Pivoted Cholesky: take the candidate least explained by those taken before, and explain all by it.
    residual = torch.full((len(candidates),), float(count), dtype=torch.float64)
    rows = torch.zeros(count, len(candidates), dtype=torch.float64)
    pivots = []
    for j in range(count):
        pivot = int(residual.argmax())
        pivots.append(pivot)
        covariance = _level_kernel(candidates[pivot : pivot + 1], candidates, level)[0]  # [C]
        rows[j] = (covariance - rows[:j, pivot] @ rows[:j]) / residual[pivot].sqrt()
        residual = residual - rows[j] ** 2
    return candidates[pivots], rows[:, pivots].T.tril()
