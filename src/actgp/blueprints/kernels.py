"""Kernels, ours and gpytorch's, described and built."""

from typing import Any

import gpytorch.kernels as gpk
import torch
from gpytorch.kernels import Kernel

from actgp.blueprints.activations import build_activation, describe_activation
from actgp.blueprints.constraints import build_constraints, describe_constraints
from actgp.blueprints.source import Source, describe_levels, refuse_to_save
from actgp.kernels import ArcCosine, MatchedKernel, SpectralKernel, ZonalKernel, ZonalMatern, ZonalRBF

ZONAL: dict[str, type[ZonalKernel]] = {
    c.__name__: c for c in (ArcCosine, ZonalMatern, ZonalRBF, MatchedKernel, SpectralKernel)
}
# The parameter whose last axis has one entry for each input, where there is one.
PLAIN: dict[str, tuple[type[Kernel], str | None]] = {
    "RBFKernel": (gpk.RBFKernel, "raw_lengthscale"),
    "MaternKernel": (gpk.MaternKernel, "raw_lengthscale"),
    "RQKernel": (gpk.RQKernel, "raw_lengthscale"),
    "PeriodicKernel": (gpk.PeriodicKernel, "raw_lengthscale"),
    "LinearKernel": (gpk.LinearKernel, "raw_variance"),
    "PolynomialKernel": (gpk.PolynomialKernel, None),
    "CosineKernel": (gpk.CosineKernel, None),
    "ConstantKernel": (gpk.ConstantKernel, None),
}
COMPOSED: dict[str, type[Kernel]] = {"AdditiveKernel": gpk.AdditiveKernel, "ProductKernel": gpk.ProductKernel}
NAMES = {**ZONAL, **{name: c for name, (c, _) in PLAIN.items()}, "ScaleKernel": gpk.ScaleKernel, **COMPOSED}
DEEPEST = 16


def describe_kernel(kernel: Kernel, place: str) -> dict[str, Any]:
    """Class and options of a kernel and of those within it; its parameters and sizes are tensors."""
    return {**_describe(kernel, place), "constraints": describe_constraints(kernel, place)}


def build_kernel(source: Source) -> Kernel:
    """The kernel of a description, its parameters yet to be set."""
    kernel = _build(source, 0)
    build_constraints(kernel, source)
    return kernel


def _describe(kernel: Kernel, place: str) -> dict[str, Any]:
    if type(kernel) not in NAMES.values():
        refuse_to_save("a kernel", sorted(NAMES), kernel, place)
    if kernel.batch_shape:
        raise ValueError(
            f"to be saved, a kernel must have no batch_shape, got {list(kernel.batch_shape)} at {place}; "
            "build one model for each element"
        )
    entries: dict[str, Any] = {"class": type(kernel).__name__}
    if isinstance(kernel, ArcCosine):
        return entries | {"order": kernel.order}
    if isinstance(kernel, ZonalMatern | gpk.MaternKernel):
        entries["nu"] = float(kernel.nu)
    if isinstance(kernel, MatchedKernel):
        activation = describe_activation(kernel.activation, f"{place}.activation")
        return entries | {"activation": activation, "num_levels": describe_levels(kernel.num_levels, place)}
    if isinstance(kernel, SpectralKernel):
        return entries | {"energies": kernel._energies.tolist()}
    if isinstance(kernel, ZonalKernel):
        return entries
    if isinstance(kernel, gpk.ScaleKernel):
        entries["base"] = _describe(kernel.base_kernel, f"{place}.base_kernel")
    if isinstance(kernel, gpk.AdditiveKernel | gpk.ProductKernel):
        entries["kernels"] = [_describe(part, f"{place}.kernels.{i}") for i, part in enumerate(kernel.kernels)]
    if isinstance(kernel, gpk.PolynomialKernel):
        entries["power"] = int(kernel.power)
    return entries | {"ard_num_dims": kernel.ard_num_dims}


def _build(source: Source, depth: int) -> Kernel:
    name = source.get("class", str)
    active = source.tensors.get(f"{source.prefix}active_dims")
    active_dims = None if active is None else tuple(active.reshape(-1).tolist())
    if depth > DEEPEST:
        source.refuse(f"at most {DEEPEST} kernels inside each other", "more")
    if name in ZONAL:
        return _build_zonal(source, active_dims)
    if name == "ScaleKernel":
        return gpk.ScaleKernel(_build(source.part("base", "base_kernel"), depth + 1), active_dims=active_dims)
    if name in COMPOSED:
        return COMPOSED[name](*[_build(part, depth + 1) for part in source.parts("kernels", "kernels")])
    return _build_plain(source, active_dims)


def _build_zonal(source: Source, active_dims: tuple[int, ...] | None) -> ZonalKernel:
    kernel_class = source.choose("class", ZONAL)
    D = source.tensor("raw_lengthscale", 1, None).shape[1]
    if kernel_class is ArcCosine:
        return ArcCosine(D, source.get("order", int), active_dims=active_dims)
    if kernel_class is ZonalMatern:
        return ZonalMatern(D, source.get("nu", float), active_dims=active_dims)
    if kernel_class is MatchedKernel:
        activation = build_activation(source.part("activation", "activation"))
        return MatchedKernel(D, activation, source.levels(), active_dims=active_dims)
    if kernel_class is SpectralKernel:
        energies = source.get("energies", list)
        kernel = SpectralKernel(D, energies, active_dims=active_dims)
        kernel._energies = torch.tensor(
            energies, dtype=torch.float64
        )  # normalised already, perhaps not to the last bit
        return kernel
    return ZonalRBF(D, active_dims=active_dims)


def _build_plain(source: Source, active_dims: tuple[int, ...] | None) -> Kernel:
    kernel_class, sized = source.choose("class", PLAIN)
    options: dict[str, Any] = {} if active_dims is None else {"active_dims": active_dims}
    ard = source.entries.get("ard_num_dims")
    if ard is not None:
        options["ard_num_dims"] = source.get("ard_num_dims", int)
        if sized is not None:
            source.tensor(sized, 1, ard)
    if kernel_class is gpk.MaternKernel:
        options["nu"] = source.get("nu", float)
    if kernel_class is gpk.PolynomialKernel:
        options["power"] = source.get("power", int)
    return kernel_class(**options)
