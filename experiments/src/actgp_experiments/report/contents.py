"""What a report says, and in which order."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from actgp_experiments.report import image_tables, metrics, ranks, tables
from actgp_experiments.report.banana import Banana
from actgp_experiments.report.blocks import Block, Document, Heading, Paragraph
from actgp_experiments.report.figures import draw_all, reliability, shifts
from actgp_experiments.report.images import ImageRun
from actgp_experiments.report.ranks import Grid
from actgp_experiments.report.records import Results


@dataclass(frozen=True)
class Besides:
    """What a report has beside the grid; a section without results is left out.

    Attributes:
        commentary: Paragraphs under the main table.
        banana: Results on the banana data.
        ablation: Results of our model with one ingredient taken out at a time.
        images: Results on images.
        splits: Results on more splits, to be set beside published tables.
    """

    commentary: Sequence[str] = ()
    banana: Sequence[Banana] = ()
    ablation: Results | None = None
    images: Sequence[ImageRun] = ()
    splits: Results | None = None


def compose(results: Results, pictures: Path, prefix: str, besides: Besides) -> Document:
    """Draws the figures and puts everything in order.

    Args:
        results: What has run.
        pictures: The folder for the figures.
        prefix: What their names begin with.
        besides: What else there is.
    """
    models = ranks.order(results)
    figures = draw_all(results, models, pictures, prefix)
    blocks: list[Block] = [
        *_introduction(results, models),
        Heading("Negative log predictive density"),
        tables.medians(results, models, metrics.NLPD, "Median NLPD; lower is better"),
        *map(Paragraph, besides.commentary),
        figures["scores"],
        Heading("Root mean square error"),
        tables.medians(results, models, metrics.RMSE, "Median RMSE; lower is better"),
        Heading("Continuous ranked probability score"),
        tables.medians(results, models, metrics.CRPS, "Median CRPS; lower is better"),
        Heading("Calibration"),
        tables.medians(
            results, models, metrics.COVERAGE, "Median coverage of 95 % intervals; closer to 95 % is better"
        ),
        figures["calibration"],
        Heading("Ranks"),
        *_ranks(results),
        Heading("Winners"),
        tables.winners(results),
        Heading("Pairs of models"),
        tables.pairs(results, models),
        Heading("Cost"),
        tables.seconds(results, models),
        *([figures["cost"]] if "cost" in figures else []),
    ]
    if besides.ablation is not None:
        blocks += _ablation(besides.ablation)
    if besides.banana:
        blocks += [Heading("Banana data"), tables.banana(besides.banana)]
    if besides.images:
        blocks += _images(besides.images, pictures, prefix)
    if all(map(results.has, (metrics.NLPD_ORIGINAL.key, metrics.RMSE_ORIGINAL.key))):
        blocks += [
            Heading("In the units of the data"),
            tables.medians(results, models, metrics.NLPD_ORIGINAL, "Median NLPD in the units of the data"),
            tables.medians(results, models, metrics.RMSE_ORIGINAL, "Median RMSE in the units of the data"),
        ]
    if besides.splits is not None:
        blocks += [
            Heading("Beside published tables"),
            Paragraph(
                "More random splits into 90 % to learn from and 10 % to test on, as published tables have them, drawn "
                "from seed 0 (scikit-learn's ShuffleSplit of the rows in the order of their values, so not the very "
                "rows of others), in the units of the data: means over splits, and their standard errors."
            ),
            tables.means(besides.splits),
        ]
    blocks.append(Heading("What has run"))
    if _is_under_way(results):
        blocks.append(tables.progress(results, models))
    blocks.append(Paragraph(_provenance(results)))
    return Document(f"Results: {results.experiment}", tuple(blocks))


def _images(runs: Sequence[ImageRun], folder: Path, prefix: str) -> list[Block]:
    blocks: list[Block] = [
        Heading("Images under shift"),
        Paragraph(
            "Means over seeds, with their standard deviation where there are several. AUROC says how well the entropy "
            "of predictions tells foreign or shifted images from test images: 0.5 for not at all, 1 for always."
        ),
        shifts.draw(runs, folder / f"{prefix}shifts.png"),
        reliability.draw(runs, folder / f"{prefix}reliability.png"),
    ]
    for run in {run.data: run for run in runs}.values():
        blocks.append(image_tables.unshifted(runs, run.data))
        blocks += [image_tables.shifted(runs, run.data, shift) for shift in run.shifts]
    return blocks


def _introduction(results: Results, models: Sequence[str]) -> list[Block]:
    text = (
        f"{_plural(len(models), 'model')} on {_plural(len(results.data_sets), 'data set')} with {_splits(results)} "
        "into training and held-out data. Scores are of held-out data, with "
        "targets standardised by the training part; tables show medians over splits, the best in bold, and beside the "
        "name of a data set its numbers of rows and inputs. A run that failed counts as infinitely bad."
    )
    missing = (
        "Not everything has run; the last table counts the splits. A median with an asterisk is of fewer splits than "
        "other models have: it is shown, with a hollow marker in the figure, but neither ranked nor best."
    )
    if _is_under_way(results):
        return [Paragraph(text), Paragraph(missing)]
    return [Paragraph(text if _is_full(results) else f"{text} A dash: not run on that data set.")]


def _ablation(results: Results) -> list[Block]:
    rows, title = ranks.order(results), "with one ingredient taken out at a time"
    shown = (metrics.NLPD, metrics.RMSE, metrics.CRPS)
    return [
        Heading("What each ingredient is worth"),
        Paragraph(f"Our default, and the same {title}: {_splits(results)} of each data set, among those above."),
        *(tables.medians(results, rows, metric, f"Median {metric.name} {title}") for metric in shown),
    ]


def _splits(results: Results) -> str:
    """How many splits data sets have."""
    numbers = sorted({len(results.splits(data)) for data in results.data_sets})
    of = " to ".join(str(n) for n in dict.fromkeys((numbers[0], numbers[-1])))
    return f"{of} split{'s' if numbers[-1] > 1 else ''}"


def _ranks(results: Results) -> list[Block]:
    grid, everything = ranks.largest_grid(results), ranks.common_grid(results)
    text = (
        "The rank of a model on a data set is its place by median among the models compared, 1 for the lowest; equal "
        "ones share the mean of their places. An average needs the same data sets for all: it is taken over the "
        "largest full grid, the models and data sets with the most cells such that each model has all splits of each "
        "data set."
    )
    if not grid.models:
        return [Paragraph(f"{text} No model has all splits of any data set yet.")]
    table = tables.average_ranks(results, grid, _over("Average ranks", grid))
    outside = [model for model in results.models if model not in grid.models]
    if not outside:
        return [Paragraph(text), table]
    lacking = "; ".join(f"{model}: {_lacking(results, model, grid)}" for model in outside)
    left_out = f"Models that lack some of these data sets are left out of it ({lacking})."
    if not everything.data_sets:
        return [Paragraph(f"{text} {left_out} There is no data set that all models have."), table]
    second = f"{left_out} The second table has all models, over the data sets that all of them have."
    return [
        Paragraph(f"{text} {second}"),
        table,
        tables.average_ranks(results, everything, _over("Average ranks of all models", everything)),
    ]


def _over(title: str, grid: Grid) -> str:
    return f"{title}: {_plural(len(grid.models), 'model')} over {_plural(len(grid.data_sets), 'data set')}"


def _lacking(results: Results, model: str, grid: Grid) -> str:
    return ", ".join(data for data in grid.data_sets if not results.complete(data, model))


def _is_full(results: Results) -> bool:
    return all(results.complete(data, model) for data in results.data_sets for model in results.models)


def _is_under_way(results: Results) -> bool:
    """Whether some model has run on some splits of a data set only."""
    cells = [(data, model) for data in results.data_sets for model in results.models]
    return any(results.of(data, model) and not results.complete(data, model) for data, model in cells)


def _provenance(results: Results) -> str:
    used: dict[str, set[str]] = {}
    for cell in results.cells.values():
        for name, version in cell.versions.items():
            used.setdefault(name, set()).add(version)
    listed = ", ".join(f"{name} {' and '.join(sorted(versions))}" for name, versions in sorted(used.items()))
    cells = f"{len(results.cells)} runs, each of one model on one split of one data set"
    return f"{cells}, with {listed}." if listed else f"{cells}."


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
