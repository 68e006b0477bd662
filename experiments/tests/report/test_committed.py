"""The report in docs/, the table in the README and those in docs/paper.md are what the stored results say."""

from pathlib import Path

import pytest

from actgp_experiments.report import write_report
from actgp_experiments.report.metrics import NLPD
from actgp_experiments.report.ranks import medians
from actgp_experiments.report.records import Results, read_results

ROOT = Path(__file__).parents[3]
RESULTS, DOCS = ROOT / "results", ROOT / "docs" / "uci"
OTHERS = ("DGP", "NN", "NN Ensemble", "Deep ensemble", "Laplace", "SGPR")
IN_README = ("ADGP, default", "ADGP, ours", "ADGP, published", *OTHERS)

pytestmark = pytest.mark.skipif(
    not (DOCS / "report.md").exists(), reason="needs the repository, of which a package has a part"
)


def test_the_report_is_rebuilt_from_the_results(tmp_path: Path) -> None:
    ablation = RESULTS / "ablation.jsonl"
    write_report(
        RESULTS / "uci.jsonl",
        tmp_path / "report.html",
        tmp_path / "report.md",
        banana=RESULTS / "banana.jsonl",
        ablation=ablation if ablation.exists() else None,
        images=RESULTS / "images.jsonl",
        splits=RESULTS / "uci_splits.jsonl",
        commentary=DOCS / "commentary.txt",
    )
    assert (tmp_path / "report.md").read_text(encoding="utf-8") == (DOCS / "report.md").read_text(encoding="utf-8")
    for table in DOCS.glob("*.csv"):
        assert (tmp_path / table.name).read_text(encoding="utf-8") == table.read_text(encoding="utf-8")


def test_the_table_of_the_readme_is_of_the_results() -> None:
    results = read_results(RESULTS / "uci.jsonl")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for data in results.data_sets:
        found = medians(results, NLPD.key, data)
        values = [found[model] for model in IN_README]
        best = f"{min(values):.2f}"  # ties are those that a reader sees
        texts = [f"**{best}**" if f"{value:.2f}" == best else f"{value:.2f}" for value in values]
        assert f"| {data} | {' | '.join(texts)} |".replace("-", "−") in readme


def splits_won(results: Results, key: str, data: str, first: str, second: str) -> int:
    scores = zip(results.of(data, first), results.of(data, second), strict=True)
    return sum(a.metrics[key] < b.metrics[key] for a, b in scores)


@pytest.mark.parametrize(("key", "form"), [("nlpd", ".2f"), ("rmse", "#.3g")])
def test_the_tables_of_the_papers_claims_are_of_the_results(key: str, form: str) -> None:
    results = read_results(RESULTS / "uci.jsonl")
    page = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
    published, ours = "ADGP, published", "ADGP, ours"
    pairs = ((published, "DGP"), (published, "NN"), (ours, "DGP"), (ours, "NN"))
    splits, sets = dict.fromkeys(pairs, 0), dict.fromkeys(pairs, 0)
    for data in results.data_sets:
        found = medians(results, key, data)
        won = {pair: splits_won(results, key, data, *pair) for pair in pairs}
        for pair in pairs:
            splits[pair] += won[pair]
            sets[pair] += found[pair[0]] < found[pair[1]]
        texts = [f"{found[model]:{form}}" for model in (published, "DGP", "NN", ours)]
        assert f"| {data} | {' | '.join([*texts, *map(str, won.values())])} |".replace("-", "−") in page
    assert f"| splits, of 40 | | | | | {' | '.join(map(str, splits.values()))} |" in page
    assert f"| sets, of 8 | | | | | {' | '.join(map(str, sets.values()))} |" in page
