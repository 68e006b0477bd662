"""GPflux's deep GP, by a worker in its own environment."""

import json
import subprocess
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Literal

from benchmarks.problem import Problem

WORKER = Path(__file__).with_name("gpflux_worker.py")


def command(problem: Problem, name: Literal["step", "predict"], python: str, bits: int) -> Callable[[], None]:
    """Runs a command of the worker, and waits for its end."""
    worker = subprocess.Popen(
        [python, str(WORKER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert worker.stdin is not None
    assert worker.stdout is not None
    stdin, stdout = worker.stdin, worker.stdout
    stdin.write(json.dumps(asdict(problem) | {"bits": bits}) + "\n")

    def run() -> None:
        stdin.write(name + "\n")
        stdin.flush()
        if stdout.readline().strip() != "done":
            raise RuntimeError(f"the GPflux worker stopped; run {WORKER.name} by hand to see why")

    return run
