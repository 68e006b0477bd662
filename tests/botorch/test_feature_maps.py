"""Zonal kernels in BoTorch's pathwise sampling."""

import pytest
import torch
from botorch.models import SingleTaskGP
from botorch.sampling.pathwise import draw_matheron_paths
from botorch.sampling.pathwise.features import gen_kernel_features
from gpytorch.kernels import ScaleKernel
from small_problem import rows, values
from torch import Tensor
from torch.testing import assert_close

import actgp
from actgp.botorch import DeepGPModel

KERNELS = {
    "arc-cosine": lambda: actgp.ArcCosine(2),
    "some columns": lambda: actgp.ZonalRBF(2, active_dims=[0, 2]),
    "Matérn, scaled": lambda: ScaleKernel(actgp.ZonalMatern(2)),
}


@pytest.mark.parametrize("name", list(KERNELS))
def test_features_have_the_kernel_as_their_product(name: str) -> None:
    kernel = KERNELS[name]().double()
    columns = 3 if name == "some columns" else 2
    X = rows(10, columns, seed=0).reshape(2, 5, columns)
    features = gen_kernel_features(kernel, columns, 40_000)(X)
    assert_close(features @ features.mT, kernel(X).to_dense(), rtol=0.05, atol=0.05)


def test_functions_of_botorchs_own_model(X: Tensor) -> None:
    Y = values(X)[:, :1]
    model = SingleTaskGP(X, Y, torch.full_like(Y, 1e-4), covar_module=actgp.ArcCosine(2))
    paths = draw_matheron_paths(model.eval(), torch.Size([20]))
    assert (paths(X).mean(0) - Y[:, 0]).abs().max() < 0.1
    inside = rows(5, 2, seed=2)
    expected = model.posterior(inside)
    spread = expected.variance.sqrt()[:, 0]
    assert ((paths(inside).mean(0) - expected.mean[:, 0]).abs() < spread).all()


def test_a_deep_gp_of_arc_cosines_alone(X: Tensor) -> None:
    Y = values(X)[:, :1]
    model = DeepGPModel(X, Y, covar_module=actgp.ArcCosine(2), num_paths=2, num_functions=16).fit()
    assert (model.posterior(X).mean - Y).abs().max() < 0.3 * Y.std()


def test_a_batch_of_kernels_is_refused() -> None:
    with pytest.raises(ValueError, match=r"functions are drawn of a kernel without batch_shape, got \[3\]; build one"):
        gen_kernel_features(actgp.ArcCosine(2, batch_shape=torch.Size([3])), 2, 10)
