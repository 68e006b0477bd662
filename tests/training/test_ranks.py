"""Several ranks train one model: the one that a single process trains with the same minibatches."""

from pathlib import Path

import pytest
import torch
from two_ranks import run, run_alone

FIT = """
g = torch.Generator().manual_seed(0)
X = torch.randn(400, 3, generator=g, dtype=torch.float64)
y = torch.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * torch.randn(400, generator=g, dtype=torch.float64)
likelihood = GaussianLikelihood()  # with outliers, the closed form of S depends on draws of y for the rows of a batch
torch.manual_seed(rank)  # ranks begin with other weights, and take those of rank 0
model = actgp.deep_gp(3, num_layers=2, num_inducing=12, likelihood=likelihood, generator=torch.Generator().manual_seed(rank)).double()
recipe = actgp.Recipe(network_steps=50, num_steps=50, batch_size=40)
result = actgp.fit(model, X, y, recipe, generator=torch.Generator().manual_seed(rank), progress=False)
torch.save(
    {
        "network": torch.tensor(result.network_objectives, dtype=torch.float64),
        "posterior": torch.tensor(result.objectives, dtype=torch.float64),
        "final": torch.tensor(result.final_objectives, dtype=torch.float64),
        "held_out": torch.tensor(result.held_out, dtype=torch.float64),
        **model.state_dict(),
    },
    folder / f"{rank}of{size}.pt",
)
"""


def test_two_ranks_take_the_steps_of_one_process(tmp_path: Path) -> None:
    """Network, warm start, natural gradients, validation, calibration and the last stage, to round-off."""
    run_alone(FIT, tmp_path)
    run(FIT, 2, tmp_path)
    alone, first, second = (torch.load(tmp_path / f"{name}.pt") for name in ("0of1", "0of2", "1of2"))
    assert len(alone["network"]) == len(alone["posterior"]) == 50
    assert len(alone["final"]) == 6
    for name, values in alone.items():
        torch.testing.assert_close(first[name], values, rtol=1e-7, atol=1e-7, msg=lambda text, name=name: f"{name}: {text}")
        assert torch.equal(first[name], second[name]), name  # to the last bit
