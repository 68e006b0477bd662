"""A model as one ONNX file, that other programs run without Python: `export`."""

import importlib
import logging
import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from actgp import checks
from actgp.distil.exact import ExactPaths
from actgp.distil.outputs import Classes, LongTailed, Outputs
from actgp.distil.student import Student
from actgp.distil.teacher import inside
from actgp.models import DeepGP
from actgp.version import __version__

NUM_SAMPLES = 20
INPUT, ROWS = "X", "rows"
NEEDED = ("onnx", "onnxscript", "onnxruntime")
BATCHES = (1, 7)  # that a file is tried with, besides all rows
MOST_ROWS = 1_000
TOLERANCE = {torch.float64: 1e-5, torch.float32: 1e-2}  # round-off, magnified where noise is small
COMPONENTS, PLACES = ("weights", "means", "variances"), ("mean", "lower", "upper", "means")
SMALLEST = 1e-3  # probability, of which parts are compared
LOGGERS = ("torch.onnx", "onnxscript", "onnx_ir")


class _Named(nn.Module):
    """A module whose outputs have an order: those of a `Normals` with the ends of its interval, or of `Classes`."""

    def __init__(self, module: nn.Module, level: float) -> None:
        super().__init__()
        self.module, self.level = module, level

    def forward(self, X: Tensor) -> tuple[Tensor, ...]:
        return tuple(named(self.module(X), self.level).values())


def named(outputs: Outputs, level: float) -> dict[str, Tensor]:
    """What a file gives, by name."""
    if isinstance(outputs, Classes):
        return outputs._asdict()
    lower, upper = outputs.interval(level)
    first = {"mean": outputs.mean, "std": outputs.std, "epistemic_std": outputs.epistemic_std}
    first |= {"aleatoric_std": outputs.aleatoric_std, "lower": lower, "upper": upper}
    if isinstance(outputs, LongTailed):  # its normals are those of T(y)
        return first
    return first | {"weights": outputs.weights, "means": outputs.means, "variances": outputs.variances}


@dataclass(frozen=True)
class Exported:
    """What was written.

    Attributes:
        path: The file.
        inputs: The name of each input with its shape.
        outputs: The names of the outputs.
        rows: How many rows the file was tried on.
        difference: The largest between file and model: of standard deviations and probabilities in parts of themselves,
            of everything else in standard deviations of y.

    Example:
        >>> import actgp, pathlib
        >>> exported = actgp.Exported(pathlib.Path("a.onnx"), {"X": ("rows", 2)}, ("mean", "std"), 50, 1e-7)
        >>> exported.inputs["X"]
        ('rows', 2)
    """

    path: Path
    inputs: dict[str, tuple[int | str, ...]]
    outputs: tuple[str, ...]
    rows: int
    difference: float


def export(
    model: object,
    path: str | os.PathLike[str],
    X: Tensor,
    *,
    level: float = 0.95,
    num_samples: int | None = None,
) -> Exported:
    """Writes an ONNX file with named inputs and outputs, and keeps it if onnxruntime gives the model's numbers.

    The input `X` has any number of rows. For real targets the outputs are `mean`, `std`, `epistemic_std`,
    `aleatoric_std`, `lower` and `upper`, and `weights`, `means` and `variances` of the mixture that they come from; for
    classes `probabilities` and `epistemic_std`. An estimator's scales are inside. A row with NaN gives NaN.

    Args:
        model: A student (`distill`); or a `DeepGP` or an estimator, whose paths are then all computed in the file.
        path: Where to write it.
        X: Rows of data, in the precision that the file's input shall have; on up to 1,000 of them the file is tried.
        level: Of the interval from `lower` to `upper`.
        num_samples: S, the paths, of a model that is no student; 20, or as many as an estimator has.

    Returns:
        What was written, and how far the file's numbers are from the model's.

    Example:
        >>> import actgp, tempfile, torch
        >>> model = actgp.deep_gp(input_dim=2, num_layers=2, num_inducing=8)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     exported = actgp.export(model, f"{folder}/model.onnx", torch.rand(50, 2), num_samples=5)
    """
    runtime = _needed()
    if not 0.0 < checks.real(level, "level", example=0.95) < 1.0:
        raise ValueError(f"level must lie between 0 and 1, got {level}; pass e.g. 0.95")
    module, precision = _module(model, num_samples)
    if not isinstance(X, Tensor) or X.ndim < 2 or X.shape[0] == 0:
        got = list(X.shape) if isinstance(X, Tensor) else type(X).__name__
        raise TypeError(f"X must be a tensor of rows that the model takes, [N, …], got {got}; pass some of the data")
    rows = X[:: -(-X.shape[0] // MOST_ROWS)]
    with torch.no_grad():
        wanted = named(module(rows), level)
    target = Path(path)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        draft = Path(folder) / "draft.onnx"
        _write(_Named(module, level).eval(), rows, tuple(wanted), draft)
        difference = _tried(runtime, draft, rows, wanted)
        if not difference <= TOLERANCE[precision]:
            raise RuntimeError(
                f"an exported file must give the model's numbers to {TOLERANCE[precision]:.0e}, got a difference of "
                f"{difference:.2g}, and it was not kept; use the model in double precision"
            )
        draft.replace(target)
    shape = (ROWS, *rows.shape[1:])
    return Exported(target, {INPUT: shape}, tuple(wanted), rows.shape[0], difference)


def _module(model: object, num_samples: int | None) -> tuple[nn.Module, torch.dtype]:
    """What is written, and the precision that it computes in."""
    if isinstance(model, Student):
        return model, model.dtype
    deep, scaling, own = inside(model)
    if not isinstance(deep, DeepGP):
        raise TypeError(
            f"model must be a student, a DeepGP or an estimator with one, got {type(deep).__name__}; export a student "
            "of it, actgp.distill(model, X)"
        )
    return ExactPaths(deep, num_samples or own or NUM_SAMPLES, scaling).eval(), deep.dtype


def _needed() -> Any:
    """onnxruntime, if all is there that writing takes."""
    try:
        return [importlib.import_module(name) for name in NEEDED][-1]
    except ImportError as error:
        raise ImportError(
            f"export needs {', '.join(NEEDED)}, got not all of them ({error}); pip install actgp[onnx]"
        ) from error


def _write(module: nn.Module, rows: Tensor, names: tuple[str, ...], path: Path) -> None:
    dynamic = ({0: torch.export.Dim(ROWS, min=1)},)
    with quiet():
        program = torch.onnx.export(
            module,
            (rows[: max(2, BATCHES[1])],),
            dynamo=True,
            dynamic_shapes=dynamic,
            verbose=False,
            optimize=False,  # it would leave out sums with numbers below 1e-8; onnxruntime optimises by itself
            input_names=[INPUT],
            output_names=list(names),
        )
        assert program is not None
        for node in program.model.graph:  # the exporter calls what comes of a mean "mean", too
            for value in node.outputs:
                if value.name in names and not value.is_graph_output():
                    value.name = f"inner_{value.name}"
        program.model.metadata_props["actgp"] = __version__
        program.save(path)


@contextmanager
def quiet() -> Iterator[None]:
    """The exporter's loggers say only what is wrong, and its deprecations are its own affair."""
    loggers = [logging.getLogger(name) for name in LOGGERS]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _tried(runtime: Any, path: Path, rows: Tensor, wanted: dict[str, Tensor]) -> float:
    """The largest difference between what onnxruntime gives and what the model does."""
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    largest = 0.0
    for size in (*BATCHES, rows.shape[0]):
        found = session.run(list(wanted), {INPUT: rows[:size].cpu().numpy()})
        largest = max(largest, differences(dict(zip(wanted, found, strict=True)), wanted, size))
    return largest


def differences(found: dict[str, NDArray[Any]], wanted: dict[str, Tensor], size: int) -> float:
    """The largest; see `Exported`."""
    largest = 0.0
    for name, values in found.items():
        rows = (slice(None), slice(None, size)) if name in COMPONENTS else slice(None, size)
        own = wanted[name].cpu().numpy()[rows]
        scale = (
            wanted["std"].cpu().numpy()[:size]
            if name in PLACES
            else np.maximum(np.abs(own), 0.0 if "std" in wanted else SMALLEST)
        )
        off = np.abs(values - own) / scale
        largest = max(largest, float(np.nan_to_num(off, nan=np.inf).max()))
    return largest
