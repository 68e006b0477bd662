"""Runs functions in several processes that are joined as ranks, on gloo."""

import os
import subprocess
import sys
from pathlib import Path

PREAMBLE = """
import sys
from pathlib import Path

import torch
from gpytorch.likelihoods import GaussianLikelihood
from torch import distributed, nn
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, TensorDataset

import actgp

torch.set_num_threads(1)
rank, size, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
if size > 1:
    distributed.init_process_group("gloo", init_method=f"file://{folder}/group{size}", rank=rank, world_size=size)
"""
ENDING = """
if size > 1:
    distributed.destroy_process_group()
"""


def run_alone(code: str, folder: Path) -> None:
    """Runs a script in this process."""
    exec(
        PREAMBLE.replace("int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])", f"0, 1, Path({str(folder)!r})") + code
    )


def start(code: str, size: int, folder: Path) -> list[subprocess.Popen[str]]:
    """Starts a script in so many ranks."""
    script = folder / "script.py"
    script.write_text(PREAMBLE + code + ENDING)
    (folder / f"group{size}").unlink(missing_ok=True)
    return [
        subprocess.Popen(
            [sys.executable, script, str(rank), str(size), folder],
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]


def run(code: str, size: int, folder: Path) -> list[str]:
    """What each rank writes, when all have ended well."""
    processes = start(code, size, folder)
    outputs = [process.communicate(timeout=120) for process in processes]
    for process, (_, error) in zip(processes, outputs, strict=True):
        assert process.returncode == 0, error
    return [written for written, _ in outputs]
