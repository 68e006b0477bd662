"""The command line: demo, tables, figures, diagnose, run, report."""

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import torch
import typer
from gpytorch.likelihoods import GaussianLikelihood
from rich.console import Console
from rich.table import Table

from actgp import experiments
from actgp.activations import activation as activation_of
from actgp.cli.refusals import plainly
from actgp.cli.run import run
from actgp.experiments import demo as demonstration
from actgp.experiments.report import write_report
from actgp.features import ActivatedFeatures, SpectralMismatchWarning
from actgp.kernels import ArcCosine, MatchedKernel, ZonalKernel, ZonalMatern, ZonalRBF
from actgp.models import SVGP, Diagnosis
from actgp.models import diagnose as diagnose_model

app = typer.Typer(
    help="Activated Gaussian processes: one model that is a network and a Gaussian process.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(run, name="run")
console = Console()

Output = Annotated[Path, typer.Option("--output", "-o", help="Folder to write to; it is made if need be.")]


@app.command()
def demo(output: Output = Path("demo")) -> None:
    """Train networks and their deep GPs on generated and bundled data; print scores, write pictures and a page."""
    _make(output)
    regression = _table("Regression, held-out data, standardised units", "data", "RMSE", "NLPD", "95 % coverage")
    regressions = []
    for score in demonstration.regression.scores():
        console.print(f"[dim]{score.data}: trained the {score.model}[/dim]")
        regression.add_row(score.data, score.model, f"{score.rmse:.3f}", f"{score.nlpd:.3f}", f"{score.coverage:.0%}")
        regressions.append(score)
    classification = _table("Bananas, held-out data", "layers", "accuracy", "log-likelihood")
    classifications = []
    for result in demonstration.classification.scores():
        console.print(f"[dim]bananas, layers: {result.depth}: trained the {result.model}[/dim]")
        classification.add_row(
            str(result.depth), result.model, f"{result.accuracy:.1%}", f"{result.log_likelihood:.3f}"
        )
        classifications.append(result)
    pictures = {
        demonstration.probabilities(output, classifications): "Far from the data the network stays sure of itself "
        "right up to its boundary; the deep Gaussian process leaves a wide band open.",
        demonstration.two_readings(output): "One model read in two ways.",
    }
    console.print()
    console.print(regression)
    console.print(classification)
    console.print("[dim]friedman and the bananas are generated; diabetes comes with scikit-learn[/dim]")
    page = demonstration.write_page(output / "index.html", regressions, classifications, pictures)
    _report([*pictures, page])


def _table(title: str, first: str, *numbers: str) -> Table:
    table = Table(title=title, title_justify="left")
    for name in (first, "model"):
        table.add_column(name)
    for name in numbers:
        table.add_column(name, justify="right")
    return table


@app.command()
def tables(output: Output = Path("tables")) -> None:
    """Print and write (CSV) the paper's eigenvalue tables, numerical and analytical side by side with ours."""
    _make(output)
    for table in experiments.render_tables():
        console.print(table, crop=False)
    _report(experiments.write_tables(output))


@app.command()
def figures(
    names: Annotated[list[str] | None, typer.Argument(help="Which figures; all by default.")] = None,
    output: Output = Path("figures"),
) -> None:
    """Write the paper's figures (PNG) with the numbers behind them (CSV)."""
    unknown = [name for name in names or () if name not in experiments.FIGURES]
    if unknown:
        raise typer.BadParameter(f"expected names among {', '.join(experiments.FIGURES)}, got {', '.join(unknown)}")
    _make(output)
    with console.status("figures") as status:
        paths = experiments.write_figures(output, names, progress=lambda name: status.update(f"drawing {name}"))
    _report(paths)


@app.command()
def report(
    results: Annotated[Path, typer.Argument(help="The file of results that `actgp run uci` wrote.")] = Path(
        "results/uci.jsonl"
    ),
    html: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    markdown: Annotated[Path | None, typer.Option(help="The same as Markdown, with its pictures beside it.")] = None,
    banana: Annotated[Path | None, typer.Option(help="Results of `actgp run banana`.")] = None,
    ablation: Annotated[Path | None, typer.Option(help="Results of `actgp run ablation`.")] = None,
    images: Annotated[Path | None, typer.Option(help="Results of `actgp run images`.")] = None,
    commentary: Annotated[Path | None, typer.Option(help="A text to stand under the main table.")] = None,
) -> None:
    """Write one self-contained page from stored results: figures, tables, ranks, calibration, cost."""
    with plainly(OSError, ValueError):
        paths = write_report(
            results, html, markdown, banana=banana, ablation=ablation, images=images, commentary=commentary
        )
    _report(paths)


KERNELS: dict[str, type[ZonalKernel]] = {
    "arccosine": ArcCosine,
    "matched": MatchedKernel,
    "matern": ZonalMatern,
    "rbf": ZonalRBF,
}


@app.command()
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


def _make(output: Path) -> None:
    """The folder to write to, before anything is computed."""
    with plainly(OSError):
        output.mkdir(parents=True, exist_ok=True)


def _report(paths: Iterable[Path]) -> None:
    for path in paths:
        console.print(f"wrote {path}", highlight=False, soft_wrap=True)


def main() -> None:
    """The entry point `actgp`."""
    app()
