"""The library by itself: run by `make alone`, where neither its extras nor the experiments are installed."""

import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

import actgp

NOT_NEEDED = ("actgp_experiments", "matplotlib", "pandas", "laplace", "typer")
QUICK = actgp.Recipe(network_steps=5, num_steps=5)


def main() -> None:
    assert [name for name in NOT_NEEDED if importlib.util.find_spec(name) is not None] == []
    assert "site-packages" in actgp.__file__  # installed, not read from the sources

    generator = torch.Generator().manual_seed(0)
    X = torch.randn(60, 3, generator=generator)
    y = torch.sin(X[:, 0]) + 0.1 * torch.randn(60, generator=generator)
    regressor = actgp.DGPRegressor(num_inducing=8, recipe=QUICK, random_state=0).fit(X.numpy(), y.numpy())
    mean, std = regressor.predict(X.numpy(), return_std=True)
    assert mean.shape == std.shape == (60,)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.actgp"
        regressor.save(path)
        assert (actgp.load(path).predict(X.numpy()) == mean).all()

    network = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Softplus(), torch.nn.Linear(8, 1))
    converted, report = actgp.convert_weights(network, X)
    assert converted.predict(X).mean.shape[0] == 60
    assert "softplus" in str(report).lower()

    command = Path(sys.executable).with_name("actgp")  # says what it lacks
    refusal = subprocess.run([command, "demo"], check=False, capture_output=True, text=True)
    assert refusal.returncode != 0
    assert "pip install 'actgp[cli]'" in refusal.stderr, refusal.stderr


if __name__ == "__main__":
    main()
