"""`actgp demo`."""

from pathlib import Path

from actgp import demo as demonstration
from actgp.cli.terminal import Output, console, make_folder, table_of, tell_written


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
    console.print(table_of(title, demonstration.regression.COLUMNS, [score.row for score in regressions]))
    title = "Bananas, held-out data"
    console.print(table_of(title, demonstration.classification.COLUMNS, [result.row for result in classifications]))
    console.print("[dim]friedman and the bananas are generated; diabetes comes with scikit-learn[/dim]")
    page = demonstration.write_page(output / "index.html", regressions, classifications, pictures)
    tell_written([*pictures, page])
    console.print("[dim]diabetes again: a file with a table, its model, and a page about it[/dim]")
    made = demonstration.table.write_diabetes(output)
    tell_written(made)
    console.print(f"[dim]as by: actgp fit {made.table} --target {demonstration.table.TARGET}[/dim]", soft_wrap=True)
    console.print(f"look at [bold]{made.page.absolute()}[/bold]", highlight=False, soft_wrap=True)
