"""The command line: demo, diagnose, and what other distributions add. It needs the extra `cli`."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Annotated, Any

import torch
from gpytorch.likelihoods import GaussianLikelihood
from rich.console import Console
from rich.table import Table

from actgp.activations import activation as activation_of
from actgp.features import ActivatedFeatures, SpectralMismatchWarning
from actgp.kernels import ArcCosine, MatchedKernel, ZonalKernel, ZonalMatern, ZonalRBF
from actgp.models import SVGP, Diagnosis
from actgp.models import diagnose as diagnose_model

try:
    import typer

    from actgp import demo as demonstration
except ModuleNotFoundError as error:
    raise SystemExit(
        f"the command line needs {error.name}, which is not installed; install it with: pip install 'actgp[cli]'"
    ) from error

PLUG_INS = "actgp.commands"
console = Console()

Output = Annotated[Path, typer.Option("--output", "-o", help="Folder to write to; it is made if need be.")]


@contextmanager
def plainly(*kinds: type[Exception]) -> Iterator[None]:
    """Shows errors of these kinds as one line of text, without a traceback."""
    try:
        yield
    except kinds as error:
        raise typer.BadParameter(str(error)) from error


def make_folder(output: Path) -> None:
    """Makes the folder to write to, before anything is computed."""
    with plainly(OSError):
        output.mkdir(parents=True, exist_ok=True)


def tell_written(paths: Iterable[Path]) -> None:
    """Prints what has been written."""
    for path in paths:
        console.print(f"wrote {path}", highlight=False, soft_wrap=True)


def demo(output: Output = Path("demo")) -> None:
    """Train networks and their deep GPs on generated and bundled data; print scores, write pictures and a page."""
    make_folder(output)
    regressions = []
    for score in demonstration.regression.scores():
        console.print(f"[dim]{score.data}: trained the {score.model}[/dim]")
        regressions.append(score)
    classifications = []
    for result in demonstration.classification.scores():
        console.print(f"[dim]bananas, layers: {result.depth}: trained the {result.model}[/dim]")
        classifications.append(result)
    bananas = demonstration.classification.TRAIN
    pictures = {
        demonstration.probabilities(output / "probabilities.png", bananas, classifications): "Far from the data the "
        "network stays sure of itself right up to its boundary; the deep Gaussian process leaves a wide band open.",
        demonstration.two_readings(output / "two_readings.png"): "One model read in two ways.",
    }
    console.print()
    title = "Regression, held-out data, standardised units"
    console.print(_table(title, demonstration.regression.COLUMNS, [score.row for score in regressions]))
    title = "Bananas, held-out data"
    console.print(_table(title, demonstration.classification.COLUMNS, [result.row for result in classifications]))
    console.print("[dim]friedman and the bananas are generated; diabetes comes with scikit-learn[/dim]")
    page = demonstration.write_page(output / "index.html", regressions, classifications, pictures)
    tell_written([*pictures, page])


def _table(title: str, columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Table:
    """A table for the terminal; the first two columns are words, the others numbers."""
    table = Table(title=title, title_justify="left")
    for i, name in enumerate(columns):
        table.add_column(name, justify="left" if i < 2 else "right")
    for row in rows:
        table.add_row(*row)
    return table


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


def command_line() -> typer.Typer:
    """The whole command line, with the commands that other distributions add.

    Such a command is an entry point of the group `actgp.commands`: a function with typer's annotations, or a
    `typer.Typer`. One that cannot be loaded says so when it is called, and leaves the others alone.
    """
    app = typer.Typer(
        help="Activated Gaussian processes: one model that is a network and a Gaussian process.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.command()(demo)
    app.command()(diagnose)
    for entry in sorted(entry_points(group=PLUG_INS), key=lambda entry: entry.name):
        _add(app, entry)
    return app


def _add(app: typer.Typer, entry: EntryPoint) -> None:
    try:
        command: Any = entry.load()
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=entry.name)
        elif callable(command):
            app.command(entry.name)(command)
        else:
            raise TypeError(f"expected a function or a typer.Typer, got {type(command).__name__}")
    except Exception as error:  # whatever another distribution's modules raise when they are imported
        anything = {"allow_extra_args": True, "ignore_unknown_options": True}
        app.command(entry.name, context_settings=anything)(_broken(entry, error))


def _broken(entry: EntryPoint, error: Exception) -> Callable[[], None]:
    origin = entry.dist.name if entry.dist is not None else entry.value

    def broken() -> None:
        raise typer.BadParameter(
            f"the command {entry.name} must be loaded from {entry.value}, got {type(error).__name__}: {error}; "
            f"reinstall {origin}, or uninstall it"
        ) from error

    broken.__doc__ = f"(Cannot be loaded from {origin}; call it to see why.)"
    return broken


def main() -> None:
    """The entry point `actgp`."""
    command_line()()
