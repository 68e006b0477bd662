"""Spherical harmonics on S², levels 0 to 3 (paper, appendix B).

`SphericalHarmonics` gives an orthonormal basis of each level; turned by an orthogonal matrix it is another. Drawn is
the customary one, of which each member is cos mϕ or sin mϕ times a function of the polar angle. It diagonalises the
rotations R_δ about the third axis and the reflection T: x₂ → −x₂,

    φ(R_δ x) = D φ(x),   eigenvalues of (D + Dᵀ)/2:   cos mδ,   m = 0, …, n
    φ(T x)   = F φ(x),   eigenvalues of F:            +1 for cos mϕ, −1 for sin mϕ

The CSV has them on a grid of angles; the picture evaluates them at its own pixels.
"""

from math import cos, pi, sin
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float64
from matplotlib import colormaps
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from actgp.sphere import SphericalHarmonics
from actgp_experiments import plots

NUM_LEVELS = 4
ORDERS = [(n, m) for n in range(NUM_LEVELS) for m in range(-n, n + 1)]  # m < 0: sin |m|ϕ
ANGLE = 0.5  # δ, at which the cos mδ differ
REFLECTION = 0.05  # parts sines from cosines, without bringing two orders together
REFERENCE = (0.3, 0.3)  # (θ, ϕ) at which every harmonic is given the positive sign
GRID = (41, 81)  # of θ and ϕ, for the numbers
PIXELS = 201  # across a sphere, for the picture
ELEVATION, AZIMUTH = 25, 20  # where the sphere is seen from, in degrees
COLUMNS = ("theta", "phi", *(f"n{n}_m{m}" for n, m in ORDERS))


class Harmonics(NamedTuple):
    """The harmonics on a grid of the sphere."""

    theta: NDArray[np.float64]  # polar angle, [41, 81]
    phi: NDArray[np.float64]  # azimuth, [41, 81]
    values: dict[tuple[int, int], NDArray[np.float64]]  # by n and m: [41, 81]


def compute() -> Harmonics:
    """Every harmonic on a grid of angles."""
    theta, phi = np.meshgrid(np.linspace(0, pi, GRID[0]), np.linspace(0, 2 * pi, GRID[1]), indexing="ij")
    values = customary_harmonics(torch.from_numpy(_unit_vectors(theta, phi).reshape(-1, 3)))
    return Harmonics(theta, phi, {order: values[:, j].reshape(GRID).numpy() for j, order in enumerate(ORDERS)})


def customary_harmonics(directions: Float64[Tensor, "N 3"]) -> Float64[Tensor, "N J"]:
    """Our harmonics at unit vectors, each level turned to the customary basis, in the order of `ORDERS`."""
    harmonics = SphericalHarmonics(3, NUM_LEVELS)
    levels = np.array(harmonics.levels)
    reference = torch.from_numpy(_unit_vectors(*REFERENCE))[None]
    columns = []
    for n in range(NUM_LEVELS):
        own = np.flatnonzero(levels == n)
        basis = _customary_basis(harmonics, own)
        signs = torch.sign(harmonics(reference)[:, own] @ basis)
        columns.append(harmonics(directions)[:, own] @ (basis * signs))
    return torch.cat(columns, dim=-1)


def _customary_basis(harmonics: SphericalHarmonics, own: NDArray[np.intp]) -> Float64[Tensor, "K K"]:
    """The orthogonal matrix that turns one level, with columns m = −n, …, n."""
    rotation = torch.tensor([[cos(ANGLE), -sin(ANGLE), 0], [sin(ANGLE), cos(ANGLE), 0], [0, 0, 1]], dtype=torch.float64)
    reflection = torch.diag(torch.tensor([1.0, -1.0, 1.0], dtype=torch.float64))
    X = torch.randn(100, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    X = torch.nn.functional.normalize(X, dim=-1)
    # φ(x)ᵀ Dᵀ = φ(R x)ᵀ at enough points determines D, and likewise F.
    phi = harmonics(X)[:, own]
    D, F = (torch.linalg.lstsq(phi, harmonics(X @ T.T)[:, own]).solution.T for T in (rotation, reflection))
    _, basis = torch.linalg.eigh((D + D.T) / 2 + REFLECTION * (F + F.T) / 2)
    # Eigenvalues ascend: cos nδ ∓ w, …, cos δ ∓ w, 1 + w.
    ascending = [m for k in range(len(own) // 2, 0, -1) for m in (-k, k)] + [0]
    return basis[:, np.argsort(ascending).tolist()]


def draw(folder: Path) -> Path:
    """Draws the figure `harmonics`."""
    result = compute()
    directions, facing, alpha = _view()
    norm, colours = Normalize(-2.7, 2.7), colormaps[plots.DIVERGING]
    values = customary_harmonics(torch.from_numpy(directions.reshape(-1, 3)))
    with plots.style():
        figure = plots.figure(7.4, 4.8)
        panels = figure.subplots(NUM_LEVELS, 2 * NUM_LEVELS - 1)
        for axes in panels.flat:
            axes.set_axis_off()
        for (n, m), column in zip(ORDERS, values.T, strict=True):
            image = colours(norm(column.reshape(PIXELS, PIXELS).numpy()))  # [PIXELS, PIXELS, 4]
            image[..., :3] *= (0.6 + 0.4 * facing)[..., None]  # darker where the surface turns away
            image[..., 3] = alpha
            axes = panels[n, NUM_LEVELS - 1 + m]
            axes.imshow(image, origin="lower")
            axes.set_title(f"n = {n}, m = {m}".replace("-", "−"), fontsize=8, pad=3)
        bar = figure.colorbar(ScalarMappable(norm, colours), ax=panels, shrink=0.6, aspect=25, pad=0.02)
        bar.set_label("φ(x)")
        plots.caption(
            figure,
            "The spherical harmonics of levels n = 0, …, 3 on S², 2n + 1 to a level, of unit mean square.",
        )
        columns = (result.theta, result.phi, *result.values.values())
        rows = (tuple(map(float, row)) for row in zip(*(c.ravel() for c in columns), strict=True))
        return plots.save(figure, folder / "harmonics.png", COLUMNS, rows)


def _view() -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """For each pixel of a picture of the sphere: the unit vector seen, its height towards the viewer, the opacity."""
    elevation, azimuth = np.radians(ELEVATION), np.radians(AZIMUTH)
    viewer = _unit_vectors(pi / 2 - elevation, azimuth)
    right = np.array([-np.sin(azimuth), np.cos(azimuth), 0.0])
    up = np.cross(viewer, right)
    across, along = np.meshgrid(*2 * (np.linspace(-1.02, 1.02, PIXELS),))
    radius = np.hypot(across, along)
    inside = np.minimum(radius, 1.0) / np.maximum(radius, 1e-9)  # pixels beyond the rim take its value
    across, along = across * inside, along * inside
    facing = np.sqrt(np.maximum(1 - across**2 - along**2, 0.0))
    directions = across[..., None] * right + along[..., None] * up + facing[..., None] * viewer
    alpha = np.clip((1.0 - radius) * PIXELS / 2 + 0.5, 0.0, 1.0)  # a smooth rim
    return directions, facing, alpha


def _unit_vectors(theta: ArrayLike, phi: ArrayLike) -> NDArray[np.float64]:
    return np.stack([np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi), np.cos(theta)], axis=-1)
