"""The benchmark's runs go down, and its functions have the minima that regrets are measured from."""

from pathlib import Path

import pytest
import torch

from benchmarks.optimisation import MODELS, PROBLEMS, Cell, run
from benchmarks.regret import curves_of, table, write_regrets


@pytest.mark.parametrize("model", list(MODELS))
def test_runs(model: str) -> None:
    record = run(Cell("chirp-3", model, seed=0, initial=5, evaluations=2))
    assert len(record["regret"]) == 3
    assert record["regret"] == sorted(record["regret"], reverse=True)
    assert record["regret"][-1] >= 0


@pytest.mark.parametrize("name", list(PROBLEMS))
def test_nothing_is_below_the_minimum(name: str, generator: torch.Generator) -> None:
    problem = PROBLEMS[name]
    X = torch.rand(20_000, problem.input_dim, dtype=torch.float64, generator=generator)
    assert problem.function(X).min() > problem.least


def test_regrets_are_compared_from_the_same_start(tmp_path: Path) -> None:
    def cell(model: str, seed: int, *regret: float) -> dict[str, object]:
        return {"cell": {"problem": "chirp-3", "model": model, "seed": seed}, "regret": list(regret)}

    records = [
        {"times": {}},
        cell("SingleTaskGP", 0, 3.0, 2.0, 1.0, 0.5),  # another length than the last
        cell("SingleTaskGP", 0, 3.0, 2.0, 1.0),
        cell("DeepGPModel", 0, 3.0, 1.0, 0.5),
        cell("SingleTaskGP", 1, 3.0, 0.2, 0.1),
        cell("DeepGPModel", 1, 3.0, 2.0, 2.0),
        cell("DeepGPModel", 2, 3.0, 0.5, 0.125),
    ]
    assert table(curves_of(records)).splitlines() == [
        "| | SingleTaskGP | DeepGPModel |",
        "|---|---|---|",
        "| chirp-3, 2 to 3 runs | 0.55 | 0.5 (better in 1 of 2) |",
    ]
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- measured -->\nold\n<!-- end of measured -->\nafter\n")
    write_regrets(records, page, tmp_path / "plot.png")
    text = page.read_text()
    assert text.startswith("before\n<!-- measured -->\n\n| | Single")
    assert "old" not in text
    assert text.endswith("(plot.png)\n\n<!-- end of measured -->\nafter\n")
    assert (tmp_path / "plot.png").stat().st_size > 1000
