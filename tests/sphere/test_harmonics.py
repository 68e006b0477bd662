from functools import lru_cache

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import actgp


def unit_vectors(count: int, dimension: int, seed: int) -> torch.Tensor:
    x = torch.randn(count, dimension, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(x, dim=-1)


harmonics_of = lru_cache(maxsize=None)(actgp.SphericalHarmonics)


@given(case=st.sampled_from([(2, 12), (3, 8), (4, 6), (6, 4), (10, 3), (25, 3)]), seed=st.integers(0, 1000))
def test_addition_theorem(case: tuple[int, int], seed: int) -> None:
    dimension, levels = case
    harmonics = harmonics_of(dimension, levels)
    x = unit_vectors(6, dimension, seed)
    phi, level = harmonics(x), torch.tensor(harmonics.levels)
    P = actgp.normalised_gegenbauer(x @ x.T, dimension, levels)
    for n in range(levels):
        N = actgp.num_harmonics(n, dimension)
        assert (level == n).sum() == N
        torch.testing.assert_close(phi[:, level == n] @ phi[:, level == n].T, N * P[..., n], rtol=1e-9, atol=1e-9 * N)


def test_orthonormal_on_the_sphere_in_three_dimensions() -> None:
    # Gauss–Legendre in height, equally spaced in longitude: exact for products of levels below 8.
    z, w = np.polynomial.legendre.leggauss(10)
    longitude = torch.arange(20, dtype=torch.float64) * (2 * torch.pi / 20)
    z, w = torch.from_numpy(z), torch.from_numpy(w)
    r = (1 - z**2).sqrt()
    x = torch.stack(
        [r[:, None] * longitude.cos(), r[:, None] * longitude.sin(), z[:, None].expand(-1, 20)], dim=-1
    ).reshape(-1, 3)
    phi = actgp.SphericalHarmonics(3, 8)(x)
    gram = phi.T @ ((w / 2 / 20).repeat_interleave(20)[:, None] * phi)
    torch.testing.assert_close(gram, torch.eye(64, dtype=torch.float64), rtol=0, atol=1e-12)


def test_orthonormal_on_the_circle() -> None:
    angle = torch.arange(64, dtype=torch.float64) * (2 * torch.pi / 64)
    phi = actgp.SphericalHarmonics(2, 12)(torch.stack([angle.cos(), angle.sin()], dim=-1))
    torch.testing.assert_close(phi.T @ phi / 64, torch.eye(23, dtype=torch.float64), rtol=0, atol=1e-11)


def test_funk_hecke() -> None:
    # (1/Ω) ∫ s(x·y) φ(y) dω(y) = λ_n φ(x), on the circle, for the arc-cosine shape.
    kernel = actgp.ArcCosine(1).double()
    angle = torch.arange(4096, dtype=torch.float64) * (2 * torch.pi / 4096)
    y = torch.stack([angle.cos(), angle.sin()], dim=-1)
    x = unit_vectors(5, 2, 3)
    harmonics = actgp.SphericalHarmonics(2, 8)
    left = kernel.shape((x @ y.T).clamp(-1, 1)) @ harmonics(y) / 4096
    eigenvalues = actgp.spectrum(kernel, 2, 8).eigenvalues[torch.tensor(harmonics.levels)]
    torch.testing.assert_close(left, eigenvalues * harmonics(x), rtol=0, atol=1e-7)


def test_same_points_every_time_and_others_with_another_generator(generator: torch.Generator) -> None:
    x = unit_vectors(3, 5, 0)
    assert torch.equal(actgp.SphericalHarmonics(5, 3)(x), actgp.SphericalHarmonics(5, 3)(x))
    other = actgp.SphericalHarmonics(5, 3, generator=generator.manual_seed(7))(x)
    assert not torch.allclose(other, actgp.SphericalHarmonics(5, 3)(x))


def test_dtype_follows_the_input(dtype: torch.dtype) -> None:
    assert actgp.SphericalHarmonics(3, 3)(unit_vectors(2, 3, 0).to(dtype)).dtype == dtype


def test_too_many_harmonics_and_wrong_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="at most 5000 per level, got .* at level 9 in dimension 20; lower num_levels"):
        actgp.SphericalHarmonics(20, 10)
    with pytest.raises(ValueError, match=r"directions must have shape \[N, 3\], got \[2, 4\]; pass points"):
        actgp.SphericalHarmonics(3, 2)(torch.zeros(2, 4))
    with pytest.raises(ValueError, match="directions must be unit vectors, got one whose norm is off by 1; normalise"):
        actgp.SphericalHarmonics(3, 2)(2 * unit_vectors(2, 3, 0))
