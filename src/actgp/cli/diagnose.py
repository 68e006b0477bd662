"""`actgp diagnose`."""

import warnings
from typing import Annotated

import torch
import typer
from gpytorch.likelihoods import GaussianLikelihood

from actgp.activations import activation as activation_of
from actgp.cli.terminal import console, plainly
from actgp.features import ActivatedFeatures, SpectralMismatchWarning
from actgp.kernels import ArcCosine, MatchedKernel, ZonalKernel, ZonalMatern, ZonalRBF
from actgp.models import SVGP, Diagnosis
from actgp.models import diagnose as diagnose_model

KERNELS: dict[str, type[ZonalKernel]] = {
    "arccosine": ArcCosine,
    "matched": MatchedKernel,
    "matern": ZonalMatern,
    "rbf": ZonalRBF,
}


def diagnose(
    activation: Annotated[str, typer.Option(help="relu, softplus, swish, gelu or tanh.")] = "softplus",
    kernel: Annotated[str, typer.Option(help=f"{', '.join(KERNELS)}.")] = "arccosine",
    input_dim: Annotated[int, typer.Option(min=1, help="Number of inputs.")] = 8,
    num_inducing: Annotated[int, typer.Option(min=1, help="Number of hidden units.")] = 128,
    num_levels: Annotated[int, typer.Option(min=1, help="Levels of the activation that are kept.")] = 20,
) -> None:
    """Say what an activation loses under a kernel, at standard normal inputs."""
    if kernel not in KERNELS:
        raise typer.BadParameter(f"expected one of {', '.join(KERNELS)}, got {kernel}", param_hint="--kernel")
    with plainly(ValueError):
        console.print(str(_diagnosis(activation, kernel, input_dim, num_inducing, num_levels)), highlight=False)


def _diagnosis(activation: str, kernel: str, input_dim: int, num_inducing: int, num_levels: int) -> Diagnosis:
    chosen = activation_of(activation)
    prior = MatchedKernel(input_dim, chosen, num_levels) if kernel == "matched" else KERNELS[kernel](input_dim)
    generator = torch.Generator().manual_seed(0)
    features = ActivatedFeatures(input_dim, num_inducing, chosen, num_levels, generator=generator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SpectralMismatchWarning)  # the diagnosis says the same
        model = SVGP(prior, features, GaussianLikelihood())
    return diagnose_model(model, torch.randn(1_000, input_dim, generator=generator))
