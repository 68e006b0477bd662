"""Training in one of several ranks is refused: nobody would know whose model a file holds."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import distributed

import actgp

# Each rank tries twice: as torchrun has launched it, and as a member of a group that was not launched by torchrun.
SCRIPT = """
import os
import sys
from pathlib import Path
import torch
from gpytorch.kernels import RBFKernel
from torch import distributed
import actgp

g = torch.Generator().manual_seed(0)
X = torch.randn(12, 1, generator=g)
y, recipe, checkpoint = X.sin().squeeze(-1), actgp.Recipe(network_steps=1, num_steps=1), Path(sys.argv[1])


def features():
    return actgp.InducingPoints(X[:4].clone())


def try_all(case):
    for model in (
        actgp.GPR(X, y, RBFKernel()),
        actgp.SGPR(X, y, RBFKernel(), features()),
        actgp.SVGP(RBFKernel(), features(), actgp.ContaminatedGaussianLikelihood()),
        actgp.deep_gp(1, num_layers=2, num_inducing=4, generator=g),
    ):
        before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        try:
            if isinstance(model, (actgp.GPR, actgp.SGPR)):
                actgp.fit(model, recipe=recipe, progress=False)
            else:
                actgp.fit(model, X, y, recipe, checkpoint=checkpoint, progress=False)
            answer = "no error"
        except RuntimeError as error:
            answer = str(error)
        same = all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
        state = "unchanged" if same and not checkpoint.exists() else "changed"
        sys.stdout.write(f"{case} {type(model).__name__} {state} {answer}\\n")  # at once: two ranks share the terminal
        sys.stdout.flush()


try_all("launched")
distributed.init_process_group("gloo")
del os.environ["TORCHELASTIC_RUN_ID"]
try_all("joined")
distributed.destroy_process_group()
"""
REFUSAL = "must run in one process, since it is not distributed, got 2 ranks; run the script with plain python"


def test_each_of_two_ranks_refuses_and_changes_nothing(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node=2",
            script,
            tmp_path / "run.ckpt",
        ],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = sorted(done.stdout.splitlines())
    assert [line.split()[:3] for line in lines] == [
        [case, name, "unchanged"]
        for case in ("joined", "launched")
        for name in ("DeepGP", "GPR", "SGPR", "SVGP")
        for _ in range(2)
    ]
    assert all(REFUSAL in line for line in lines)


@pytest.mark.parametrize("case", ["launched", "joined"])
def test_a_single_rank_trains(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X = torch.linspace(-1.0, 1.0, 12).unsqueeze(-1)
    model = actgp.deep_gp(1, num_layers=1, num_inducing=4, generator=torch.Generator().manual_seed(0))
    if case == "launched":
        monkeypatch.setenv("TORCHELASTIC_RUN_ID", "one")
        monkeypatch.setenv("WORLD_SIZE", "1")
    else:
        distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    try:
        result = actgp.fit(model, X, X[:, 0], actgp.Recipe(network_steps=1, num_steps=1), progress=False)
    finally:
        if case == "joined":
            distributed.destroy_process_group()
    assert len(result.objectives) == 1
