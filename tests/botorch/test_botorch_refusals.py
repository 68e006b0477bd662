"""What is refused, and what is said."""

import subprocess
import sys

import pytest
import torch
from small_problem import values
from torch import Tensor

import actgp
from actgp.botorch import DeepEvidence, DeepGPModel, DeepGPPaths


def test_data(X: Tensor) -> None:
    Y = values(X)
    with pytest.raises(TypeError, match="train_X must be float64, got torch.float32; convert it with train_X.double()"):
        DeepGPModel(X.float(), Y)
    with pytest.raises(
        ValueError, match=r"train_Y must be a matrix of at least one row, got shape \[18\]; for a single"
    ):
        DeepGPModel(X, Y[:, 0])
    with pytest.raises(ValueError, match=r"must have the same rows, got shapes \[\[18, 2\], \[17, 2\]\]; align them"):
        DeepGPModel(X, Y[1:])
    with pytest.raises(ValueError, match="train_Y must be finite, got 1 NaN"):
        DeepGPModel(X, Y.masked_fill(Y.max() == Y, torch.nan))


def test_arguments(X: Tensor) -> None:
    with pytest.raises(ValueError, match="num_functions must be a multiple of num_paths, got 33 and 4; pass e.g. 32"):
        DeepGPModel(X, values(X), num_paths=4, num_functions=33)
    with pytest.raises(ValueError, match="num_layers must be at least 1, got 0"):
        DeepGPModel(X, values(X), num_layers=0)
    with pytest.raises(ValueError, match="bend must be positive and finite, got 0.0; pass e.g. 1.0"):
        DeepGPModel(X, values(X), bend=0.0)


def test_conditioned_models_are_neither_trained_nor_drawn_from(model: DeepGPModel, X: Tensor) -> None:
    conditioned = model.condition_on_observations(X[:1] / 2, values(X)[:1, :1])
    with pytest.raises(
        RuntimeError, match="conditioned on observations cannot be trained, got one; build a DeepGPModel"
    ):
        conditioned.fit()
    with pytest.raises(
        ValueError, match="functions are drawn from a model of its training data, got one that was condit"
    ):
        DeepGPPaths(conditioned, torch.Size([2]))


def test_botorch_is_imported_when_it_is_used_and_named_when_it_is_missing() -> None:
    assert actgp.botorch.DeepEvidence is DeepEvidence
    script = (
        "import sys, actgp\n"
        "print('botorch' in sys.modules)\n"
        "sys.modules['botorch'] = None\n"
        "try:\n    actgp.botorch\n"
        "except ImportError as error:\n    print(error)"
    )
    result = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    first, second = result.stdout.splitlines()
    assert first == "False"
    assert second.startswith("actgp.botorch needs BoTorch, got ")
    assert second.endswith("; pip install 'actgp[botorch]'")
