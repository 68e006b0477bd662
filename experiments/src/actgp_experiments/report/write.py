"""From files of results to files of a report."""

import re
from pathlib import Path
from tempfile import TemporaryDirectory

from actgp_experiments.report.banana import read_banana
from actgp_experiments.report.blocks import Picture
from actgp_experiments.report.contents import Besides, compose
from actgp_experiments.report.images import read_images
from actgp_experiments.report.markdown import write_markdown
from actgp_experiments.report.page import write_page
from actgp_experiments.report.records import read_results


def write_report(
    results: Path,
    html: Path,
    markdown: Path | None = None,
    *,
    banana: Path | None = None,
    ablation: Path | None = None,
    images: Path | None = None,
    splits: Path | None = None,
    commentary: Path | None = None,
) -> list[Path]:
    """Writes what a grid of models × data sets × splits has found, as a page and as Markdown.

    Args:
        results: A file with one JSON object a line, one for each model, data set and split. Cells may be missing or
            come more than once, when the last one counts; a last line that was cut off is left out.
        html: Where the page goes: one file that needs no other.
        markdown: Where the same goes as Markdown; figures and their numbers are written beside it, with its name.
            None writes no Markdown.
        banana: A file with results on the banana data, one JSON object a line. None leaves them out.
        ablation: A file like the first, of our model with one ingredient taken out at a time. None leaves it out.
        images: A file with results on images, likewise.
        splits: A file like the first, with more splits, to be set beside published tables. None leaves it out.
        commentary: A file with plain text for under the main table, its paragraphs separated by blank lines.

    Returns:
        The paths of the page, of the Markdown and of its pictures. Each picture's numbers are beside it, as CSV.
    """
    cells = read_results(results)
    besides = Besides(
        commentary=[] if commentary is None else _paragraphs(commentary),
        banana=[] if banana is None else read_banana(banana),
        ablation=None if ablation is None else read_results(ablation),
        images=[] if images is None else read_images(images),
        splits=None if splits is None else read_results(splits),
    )
    if markdown is None:
        with TemporaryDirectory() as folder:
            return [write_page(html, compose(cells, Path(folder), "", besides))]
    document = compose(cells, markdown.parent, f"{markdown.stem}_", besides)
    pictures = [block.path for block in document.blocks if isinstance(block, Picture)]
    return [write_page(html, document), write_markdown(markdown, document), *pictures]


def _paragraphs(path: Path) -> list[str]:
    if not path.is_file():
        raise FileNotFoundError(
            f"the commentary must be a text file, got {str(path)!r}, which is not there; write it, or pass None"
        )
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"the commentary must be text in UTF-8, got {str(path)!r}, which is not ({error}); save it as such"
        ) from None
    return [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()]
