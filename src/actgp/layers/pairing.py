"""Which kernels and features may stand in a layer together."""

import inspect
import warnings

from gpytorch.kernels import Kernel

from actgp.features import InducingFeatures, SpectralMismatchWarning


def check_pair(kernel: Kernel, features: InducingFeatures) -> None:
    """Refuses a kernel and features that cannot work together, and warns of those that do so badly."""
    if not isinstance(features, InducingFeatures):
        raise TypeError(
            f"features must be inducing features, got {type(features).__name__}; "
            "pass actgp.ActivatedFeatures or actgp.InducingPoints"
        )
    check_kernel(kernel)
    if kernel.active_dims is None and kernel.ard_num_dims not in (None, features.input_dim):
        raise ValueError(
            f"kernel and features must have the same number of inputs, got {kernel.ard_num_dims} and "
            f"{features.input_dim}; build both with the number of columns of X"
        )
    for complaint in features.complaints(kernel):
        warnings.warn(complaint, SpectralMismatchWarning, stacklevel=_levels_to_the_caller())


def check_kernel(kernel: Kernel) -> None:
    """Refuses what is no kernel, and batches of kernels."""
    if not isinstance(kernel, Kernel):
        raise TypeError(f"kernel must be a gpytorch kernel, got {type(kernel).__name__}; pass e.g. actgp.ArcCosine(D)")
    if kernel.batch_shape:
        raise ValueError(
            f"the kernel must have no batch_shape, got {list(kernel.batch_shape)}; build one model for each element"
        )


def _levels_to_the_caller() -> int:
    """How far up the stack the first frame outside this package is, seen from the caller of this function."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("actgp."):
        frame, level = frame.f_back, level + 1
    return level
