"""The commands that `actgp` has more where this package is installed: tables, figures, run, report.

Each experiment of `actgp run` is one command that can be interrupted and run again.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from actgp.cli import Output, console, make_folder, plainly, tell_written
from actgp.demo import probabilities
from actgp.tables import Effort
from actgp_experiments import banana as bananas
from actgp_experiments import bring as around
from actgp_experiments import images as pictures
from actgp_experiments import ten_tables as people
from actgp_experiments import uci as grid
from actgp_experiments.baselines import Settings
from actgp_experiments.datasets import UCI
from actgp_experiments.figures import FIGURES, write_figures
from actgp_experiments.horizon import chosen_factor, horizon_choices
from actgp_experiments.report import write_report
from actgp_experiments.store import Record, Store, missing_cells, revision, versions
from actgp_experiments.tables import render_tables, write_tables

run = typer.Typer(help="Run the paper's experiments.", no_args_is_help=True, add_completion=False)

Again = Annotated[bool, typer.Option(help="Also what other revisions of the code have stored.")]
Quick = Annotated[bool, typer.Option(help="Few steps and splits: minutes, to see that it runs.")]


def _some_jobs(jobs: int) -> int:
    if jobs == 0:
        raise typer.BadParameter("expected a number of cells at a time, got 0; pass 1 or more, or −1")
    return jobs


Jobs = Annotated[
    int, typer.Option(callback=_some_jobs, help="Cells at a time, one thread each; −1 for as many as cores.")
]
Dask = Annotated[
    str | None, typer.Option(help="A Dask scheduler, such as tcp://host:8786, on whose workers cells run instead.")
]
Results = Annotated[Path | None, typer.Option(help="The file of results; taken up from if it is there.")]
Networks = Annotated[Path | None, typer.Option(help="The folder of trained networks; beside the results by default.")]


@run.command()
def uci(
    data: Annotated[list[str] | None, typer.Option(help="A data set; may be repeated. All eight by default.")] = None,
    model: Annotated[list[str] | None, typer.Option(help="A contestant; may be given again. All by default.")] = None,
    splits: Annotated[int, typer.Option(min=1, max=grid.MOST_SPLITS, help="How many of twenty splits.")] = 5,
    jobs: Jobs = -1,
    dask: Dask = None,
    results: Results = None,
    quick: Quick = False,
    again: Again = False,
) -> None:
    """Contestants × data sets × splits; each result is stored as it comes, and a rerun does what is missing."""
    _run_cells("uci", data or UCI, model or list(grid.CONTESTANTS), splits, dask or jobs, results, quick, again)


@run.command()
def ablation(
    data: Annotated[list[str] | None, typer.Option(help="A data set; may be repeated. Four by default.")] = None,
    splits: Annotated[int, typer.Option(min=1, max=grid.NUM_SPLITS, help="How many of the five splits.")] = 2,
    jobs: Jobs = -1,
    dask: Dask = None,
    results: Results = None,
    quick: Quick = False,
    again: Again = False,
) -> None:
    """Our default, and the same with one ingredient taken out at a time; like the grid in everything else."""
    _run_cells("ablation", data or grid.ABLATED, list(grid.ABLATIONS), splits, dask or jobs, results, quick, again)


def _run_cells(
    name: str,
    data: Sequence[str],
    models: Sequence[str],
    splits: int,
    jobs: int | str,
    results: Path | None,
    quick: bool,
    again: bool,
) -> None:
    settings = grid.QUICK if quick else Settings()
    splits = 1 if quick else splits
    store = Store(_results_file(name, results, quick))
    with plainly(OSError, ValueError):
        wanted = grid.grid_cells(data, models, splits, settings)
        left = grid.missing(wanted, store, settings, again=again)
        stale = [] if again else grid.stale(wanted, store, settings)
    if stale:
        console.print(
            f"stored by another revision of the code, with other defaults perhaps: {', '.join(stale)}; --again"
        )
    for record in _with_progress(grid.run_grid(left, store, settings, jobs), len(wanted), len(left), store):
        metrics = record["metrics"]
        console.print(
            f"[dim]{record['data']} {record['split']} {record['model']}: RMSE {metrics['rmse']:.3f}, "
            f"NLPD {metrics['nlpd']:.3f}, {record['seconds']['train']:.0f} s[/dim]",
            highlight=False,
        )


@run.command()
def images(
    dataset: Annotated[list[str] | None, typer.Option(help="Images; may be repeated. All three by default.")] = None,
    model: Annotated[list[str] | None, typer.Option(help="A contestant; may be given again. All by default.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds.")] = pictures.NUM_SEEDS,
    jobs: Jobs = -1,
    results: Results = None,
    quick: Quick = False,
    networks: Networks = None,
) -> None:
    """Contestants × MNIST, Fashion-MNIST, CIFAR-10 × seeds, on test images and on shifted ones.

    Results are stored when all contestants around one network are done, trained networks as they come and after each
    epoch, and a rerun does what is missing.
    """
    size = "quick" if quick else "usual"
    settings = pictures.SETTINGS[size]
    seeds = 1 if quick else seeds
    store = Store(results or Path("results") / ("images.jsonl" if size == "usual" else f"images_{size}.jsonl"))
    folder = networks or store.path.with_name(f"{store.path.stem}_networks")
    with plainly(OSError, ValueError):
        wanted = pictures.grid_cells(dataset or list(pictures.SHIFTS_OF), model or list(pictures.MODELS), seeds)
        left = pictures.missing(wanted, store, settings)
    running = pictures.run_grid(left, store, settings, folder, jobs)
    for record in _with_progress(running, len(wanted), len(left), store):
        metrics = record["metrics"]
        console.print(
            f"[dim]{record['data']} {record['seed']} {record['model']}: accuracy {metrics['accuracy']:.1%}, "
            f"log-likelihood {metrics['log_likelihood']:.3f}, {record['seconds']['train']:.0f} s[/dim]",
            highlight=False,
        )


@run.command(name="image-choices")
def image_choices(
    dataset: Annotated[list[str] | None, typer.Option(help="Images; may be repeated. All three by default.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds.")] = 1,
    results: Results = None,
    networks: Networks = None,
) -> None:
    """What the GP around a network for images sees, judged by training images and shifts that are not tested."""
    store = Store(results or Path("results") / "images_choices.jsonl")
    folder = networks or store.path.with_name("images_networks")
    store.claim()
    for name in dataset or list(pictures.SHIFTS_OF):
        for seed in range(seeds):
            for record in pictures.run_choices(name, seed, pictures.SETTINGS["usual"], folder):
                store.append(record)
                shifts = ", ".join(f"{shift} {value:.3f}" for shift, value in record["shifts"].items())
                console.print(f"[dim]{name} {seed} {record['option']}: {shifts}[/dim]", highlight=False)


@run.command()
def horizon(results: Results = None) -> None:
    """How far out `forget_beyond` puts the horizon, by rows of banana's training part that are left out."""
    store = Store(results or Path("results") / "horizon.jsonl")
    store.claim()
    records = []
    for record in horizon_choices():
        records.append(record)
        store.append(record)
    console.print(f"the factor of the largest radius: {chosen_factor(records):g}")


@run.command()
def bring(
    data: Annotated[list[str] | None, typer.Option(help="A data set; may be repeated. All eight by default.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="A contestant; may be repeated. All by default.")] = None,
    leave_out: Annotated[list[str] | None, typer.Option(help="A contestant to leave out; may be repeated.")] = None,
    again: Again = False,
    jobs: Jobs = -1,
    results: Results = None,
    quick: Quick = False,
    table: Annotated[
        bool, typer.Option(help="Print the tables (Markdown) of what is stored, and run nothing.")
    ] = False,
) -> None:
    """What to put around a trained network: contestants × data sets × activations × depths × seeds.

    Each result is stored as it comes, trained networks beside it, and a rerun does what is missing.
    """
    settings = around.QUICK if quick else around.BringSettings()
    store = Store(_results_file("bring", results, quick))
    models = [name for name in only or list(around.CONTESTANTS) if name not in (leave_out or [])]
    with plainly(OSError, ValueError):
        if table:
            console.print(around.markdown(store.records()), markup=False, highlight=False, soft_wrap=True)
            return
        wanted = around.grid_cells(data or UCI, models, 1 if quick else around.NUM_SEEDS)
        left = around.missing(wanted, store, settings, again=again)
    running = around.run_grid(left, store, settings, jobs)
    for record in _with_progress(running, len(wanted), len(left), store):
        metrics, seconds = record["metrics"], record["seconds"]
        console.print(
            f"[dim]{record['data']} {record['activation']} {record['layers']} {record['seed']} {record['model']}: RMSE "
            f"{metrics['rmse']:.3f}, NLPD {metrics['nlpd']:.3f}, {seconds['train']:.1f} + {seconds['post_hoc']:.1f} s"
            "[/dim]",
            highlight=False,
        )


@run.command()
def banana(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the picture.")] = Path("figures"),
    results: Results = None,
    quick: Quick = False,
) -> None:
    """The paper's banana figure: networks of one and three layers against their deep GPs."""
    stored = _results_file("banana", results, quick)
    with plainly(OSError, ValueError):
        output.mkdir(parents=True, exist_ok=True)
        bananas.check_results(stored)
        train, test = bananas.data()
    scores = []
    for score in bananas.scores(train, test, quick):
        far = bananas.far_away(score)
        console.print(
            f"{score.model}, layers: {score.depth}: accuracy {score.accuracy:.1%}, log-likelihood "
            f"{score.log_likelihood:.3f}; far from the data: entropy {far.entropy:.2f} bit, |p − ½| {far.doubt:.2f}",
            highlight=False,
        )
        scores.append((score, far))
    tell_written([bananas.write_scores(stored, scores)])
    tell_written([probabilities(output / "banana.png", train, [score for score, _ in scores])])


@run.command("ten-tables")
def ten_tables(
    data: Annotated[list[str] | None, typer.Option(help="A table; may be repeated. All by default.")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for tables, models and pages.")] = Path(
        "pages"
    ),
    seed: Annotated[int, typer.Option(min=0, help="Of the tables, of what is kept aside, and of the fits.")] = 0,
    time_budget: Annotated[float | None, typer.Option(min=1.0, help="Seconds for each fit.")] = None,
    fast: Annotated[bool, typer.Option("--fast", help="Predict by the small network that each fit teaches.")] = False,
    results: Results = None,
    quick: Quick = False,
    again: Again = False,
    table: Annotated[bool, typer.Option(help="Print what is stored as a table (Markdown), and run nothing.")] = False,
) -> None:
    """Tables as people have them, from the file to the page, beside gradient-boosted trees with quantiles.

    Each result is stored as it comes, and a rerun does what is missing.
    """
    store = Store(_results_file("ten_tables", results, quick))
    with plainly(OSError, ValueError):
        stored = {(record["table"], record["seed"]): record for record in store.records()}
        if table:
            console.print(people.markdown(list(stored.values())), markup=False, highlight=False, soft_wrap=True)
            return
        wanted = [(name, seed) for name in data or list(people.CASES)]
        if unknown := [name for name, _ in wanted if name not in people.CASES]:
            raise ValueError(f"--data must be one of {', '.join(people.CASES)}, got {unknown[0]}; choose among these")
        make_folder(output)
        store.claim()
        for name, _ in missing_cells(wanted, stored, again=again):
            rows = min(people.QUICK_ROWS, people.CASES[name].rows) if quick else None
            effort: Effort = "fast" if quick else "balanced"
            found = people.run_case(
                name, output, rows=rows, effort=effort, time_budget=time_budget, seed=seed, fast=fast
            )
            store.append({"experiment": "ten_tables", **found, "versions": versions(), "revision": revision()})
            console.print(
                f"{name}: NLPD {found['nlpd']:.3f}, of trees {found['nlpd_trees']:.3f}, "
                f"{found['fit_cpu_seconds']:.0f} CPU s",
                highlight=False,
            )


def _results_file(name: str, given: Path | None, quick: bool) -> Path:
    """Results of a quick pass have a file of their own."""
    return given or Path("results") / f"{name}{'_quick' if quick else ''}.jsonl"


def _with_progress(running: Iterator[Record], wanted: int, left: int, store: Store) -> Iterator[Record]:
    """Passes results on, and shows how many of the cells are done."""
    done = wanted - left
    console.print(f"{wanted} cells, {done} of them done; results in {store.path}", highlight=False, soft_wrap=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=True),
        console=console,
    )
    with bar, plainly(OSError):  # data that are not there, a disk that is full
        task = bar.add_task("cells", total=wanted, completed=done)
        for record in running:
            bar.advance(task)
            yield record


def tables(output: Output = Path("tables")) -> None:
    """Print and write (CSV) the paper's eigenvalue tables, numerical and analytical side by side with ours."""
    make_folder(output)
    for table in render_tables():
        console.print(table, crop=False)
    tell_written(write_tables(output))


def figures(
    names: Annotated[list[str] | None, typer.Argument(help="Which figures; all by default.")] = None,
    output: Output = Path("figures"),
) -> None:
    """Write the paper's figures (PNG) with the numbers behind them (CSV)."""
    unknown = [name for name in names or () if name not in FIGURES]
    if unknown:
        raise typer.BadParameter(f"expected names among {', '.join(FIGURES)}, got {', '.join(unknown)}")
    make_folder(output)
    with console.status("figures") as status:
        paths = write_figures(output, names, progress=lambda name: status.update(f"drawing {name}"))
    tell_written(paths)


def report(
    results: Annotated[Path, typer.Argument(help="The file of results that `actgp run uci` wrote.")] = Path(
        "results/uci.jsonl"
    ),
    html: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    markdown: Annotated[Path | None, typer.Option(help="The same as Markdown, with its pictures beside it.")] = None,
    banana: Annotated[Path | None, typer.Option(help="Results of `actgp run banana`.")] = None,
    ablation: Annotated[Path | None, typer.Option(help="Results of `actgp run ablation`.")] = None,
    images: Annotated[Path | None, typer.Option(help="Results of `actgp run images`.")] = None,
    splits: Annotated[Path | None, typer.Option(help="Results of `actgp run uci --splits 20`.")] = None,
    commentary: Annotated[Path | None, typer.Option(help="A text to stand under the main table.")] = None,
) -> None:
    """Write one self-contained page from stored results: figures, tables, ranks, calibration, cost."""
    with plainly(OSError, ValueError):
        paths = write_report(
            results,
            html,
            markdown,
            banana=banana,
            ablation=ablation,
            images=images,
            splits=splits,
            commentary=commentary,
        )
    tell_written(paths)
