"""The benchmark's runs go down, and its functions have the minima that regrets are measured from."""

import pytest
import torch

from benchmarks.optimisation import MODELS, PROBLEMS, Cell, run


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
