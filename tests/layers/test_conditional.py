"""Marginals and scales with gradients derived by hand, against what torch's own operations give."""

from collections.abc import Iterator, Sequence
from itertools import accumulate

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

import actgp
from actgp.features.units import UnitInputs
from actgp.features.whitening import whitenings
from actgp.layers import whitened
from actgp.layers.conditional import Marginals, conditional_marginals
from actgp.layers.unit_marginals import unit_marginals
from actgp.layers.whitened import Panel, ScalesAndKL, panels_of

SHAPES = {  # rows and columns of panels
    "whole": [(3, 3)],
    "blocks": [(1, 1), (2, 2)],
    "panels": [(3, 1), (2, 1), (1, 1)],
    "panels of unequal widths": [(3, 2), (1, 1)],
    "panels of blocks": [(1, 1), (2, 1), (1, 1)],
}


def assembled(panels: Sequence[torch.Tensor], p: int) -> torch.Tensor:
    """S of an output, from its panels."""
    starts = list(accumulate((S.shape[2] for S in panels), initial=0))
    whole = torch.zeros(starts[-1], starts[-1], dtype=torch.float64)
    for start, S in zip(starts, panels, strict=False):
        whole[start : start + len(S), start : start + S.shape[2]] = S[:, p]
    return whole


def parts(num_outputs: int, shape: str, N: int = 4, M: int = 3) -> tuple[torch.Tensor, ...]:
    g = torch.Generator().manual_seed(num_outputs)
    A = torch.randn(N, M, dtype=torch.float64, generator=g)
    prior = A.square().sum(-1) + torch.tensor([0.5, 0.2, -0.3, 1.0], dtype=torch.float64)  # one is all explained
    mean = torch.randn(M, num_outputs, dtype=torch.float64, generator=g)
    scales = [torch.randn(rows, num_outputs, w, dtype=torch.float64, generator=g) for rows, w in SHAPES[shape]]
    return tuple(x.requires_grad_() for x in (A, prior, mean, *scales))


@pytest.mark.parametrize("shape", list(SHAPES))
@pytest.mark.parametrize("num_outputs", [1, 2])
@pytest.mark.parametrize("gradients", [True, False])
def test_marginals_are_those_of_the_formula(num_outputs: int, shape: str, gradients: bool) -> None:
    A, prior, m, *scales = parts(num_outputs, shape)
    with torch.set_grad_enabled(gradients):
        mean, variance = conditional_marginals(A, prior, m, *scales)
    for p in range(num_outputs):
        S = assembled(scales, p)
        expected = (prior - A.square().sum(-1)).clamp_min(0) + (A @ S @ S.T @ A.T).diagonal()
        torch.testing.assert_close(variance[:, p], expected)
        torch.testing.assert_close(mean[:, p], A @ m[:, p])


@pytest.mark.parametrize("shape", list(SHAPES))
@pytest.mark.parametrize("num_outputs", [1, 2])
def test_their_gradients_of_first_and_second_order(num_outputs: int, shape: str) -> None:
    assert gradcheck(conditional_marginals, parts(num_outputs, shape))
    assert gradgradcheck(conditional_marginals, parts(num_outputs, shape))


@pytest.fixture
def narrow_panels(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(whitened, "PANEL", 1)
    monkeypatch.setattr(whitened, "WORTHWHILE", 0)
    panels_of.cache_clear()
    yield
    panels_of.cache_clear()


def check_scales(blocks: tuple[int, ...], num_panels: int) -> None:
    """Of two layers at once."""
    g = torch.Generator().manual_seed(0)
    shapes = [(3, 2), (3, 1), (2, 3, 3), (1, 3, 3)]  # m and raw
    inputs = [torch.randn(*shape, dtype=torch.float64, generator=g).requires_grad_() for shape in shapes]
    panels = panels_of(blocks, 2), panels_of(blocks, 1)
    *scales, _ = ScalesAndKL.apply(panels, *inputs)
    assert len(scales) == 2 * num_panels
    inside = torch.block_diag(*(torch.ones(size, size, dtype=torch.float64) for size in blocks))
    for raw, own in ((inputs[2], scales[:num_panels]), (inputs[3], scales[num_panels:])):
        expected = (raw * inside).tril(-1) + torch.diag_embed(raw.diagonal(dim1=-2, dim2=-1).exp())
        for p in range(len(raw)):
            torch.testing.assert_close(assembled(own, p), expected[p])
    assert gradcheck(lambda *given: ScalesAndKL.apply(panels, *given), inputs)
    assert gradgradcheck(lambda *given: ScalesAndKL.apply(panels, *given), inputs)


@pytest.mark.parametrize("blocks", [(3,), (1, 2)])
def test_scales_are_lower_triangles_with_a_positive_diagonal(blocks: tuple[int, ...]) -> None:
    check_scales(blocks, len(blocks))


@pytest.mark.parametrize("blocks", [(3,), (1, 2)])
@pytest.mark.usefixtures("narrow_panels")
def test_so_are_panels_of_them(blocks: tuple[int, ...]) -> None:
    check_scales(blocks, 3)


def test_panels_are_the_triangle_of_each_block() -> None:
    assert panels_of((128,), 8) == (Panel(0, 64, 128), Panel(64, 64, 128))
    assert panels_of((64, 64), 8) == (Panel(0, 64, 64), Panel(64, 64, 128))
    assert panels_of((128,), 1) == (Panel(0, 128, 128),)
    for blocks in ((150,), (70, 133, 5)):
        covered = torch.zeros(1, sum(blocks), sum(blocks))
        for panel in panels_of(blocks, 20):
            panel.of(covered).add_(1)
        triangles = torch.block_diag(*(torch.ones(size, size).tril() for size in blocks))
        assert (covered[0] <= 1).all()
        assert (covered[0] >= triangles).all()


def test_what_is_kept_for_panels_does_not_grow_with_their_number() -> None:
    panels = (panels_of((1024,), 8), panels_of((512, 70), 8))
    insides = whitened._insides(panels, torch.float32, torch.device("cpu"))
    assert len(insides) == sum(map(len, panels)) > 16
    assert {inside.untyped_storage().nbytes() for inside in insides} == {4 * 1024 * whitened.PANEL}
    for inside, panel in zip(insides, (panel for own in panels for panel in own), strict=True):
        assert torch.equal(inside[:, 0], torch.ones(panel.end - panel.start, panel.width).tril())


@pytest.mark.parametrize("with_relative", [True, False])
def test_layers_of_units_in_one_function_with_gradients_of_two_orders(with_relative: bool) -> None:
    g = torch.Generator().manual_seed(0)
    features = actgp.ActivatedFeatures(2, 3, "softplus", 8, generator=g)
    match = features.match(actgp.ArcCosine(2))

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=g)

    def marginals(X: Tensor, lengthscale: Tensor, W: Tensor, v: Tensor, m: Tensor, S: Tensor) -> Marginals:
        ((directions, R, relative),) = whitenings([W], [v], match, torch.float64)
        inputs = UnitInputs(lengthscale, directions, v, R, match.sigma(torch.float64, X.device))
        return unit_marginals(X, inputs, relative if with_relative else None, m, S)

    inputs = normal(4, 2), normal(1, 2).exp(), features.weights.detach().double(), normal(()).exp(), normal(3, 2)
    inputs = tuple(x.requires_grad_() for x in (*inputs, normal(3, 2, 3)))
    X, lengthscale, W, v, m, S = inputs
    kernel = actgp.ArcCosine(2).double()
    kernel.lengthscale, kernel.variance = lengthscale.detach(), v.detach()
    own = actgp.ActivatedFeatures(2, 3, "softplus", 8).double()
    own.weights.data.copy_(W)
    A = own.Kuf(kernel, X).T @ torch.linalg.inv(torch.linalg.cholesky(own.Kuu(kernel))).T
    mean, variance = marginals(*inputs)
    torch.testing.assert_close(mean, A @ m, rtol=1e-5, atol=1e-5)
    left = kernel(X, diag=True) - A.square().sum(-1)
    expected = left.clamp_min(0).unsqueeze(-1) + torch.einsum("nm,mpk->npk", A, S).square().sum(-1)
    torch.testing.assert_close(variance, expected, rtol=1e-5, atol=1e-5)
    assert gradcheck(marginals, inputs, atol=1e-4)
    assert gradgradcheck(marginals, inputs, atol=1e-3)
