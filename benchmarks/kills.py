"""Kills ranks, whole jobs and Dask workers at random moments, and checks what is left: python -m benchmarks.kills

A job trains a small model in two ranks, with a checkpoint after every step. One rank, or both, are killed; the other
one has to end with an error that says so. Run again, in one process or in two, the job has to end with the model of a
run that nobody killed. A grid on a Dask cluster of two workers, one of which is killed, has to store each cell once.
"""

import importlib
import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from torch import Tensor, distributed

import actgp
from actgp_experiments.store import Store, revision, run_cells

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results/kills.jsonl"
TOLERANCE = 1e-6
CELLS = 12
FORK = multiprocessing.get_context("fork")  # what is imported is imported once


def job(rank: int, size: int, folder: Path) -> None:
    """A rank: writes its model, or its error."""
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    importlib.import_module("actgp.training.stages").CHECKPOINT_SECONDS = 0.0
    try:
        if size > 1:
            group = f"file://{folder}/group{os.getppid()}-{(folder / 'attempt').read_text()}"
            distributed.init_process_group("gloo", init_method=group, rank=rank, world_size=size)
        g = torch.Generator().manual_seed(0)
        X = torch.randn(400, 3, generator=g, dtype=torch.float64)
        y = torch.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * torch.randn(400, generator=g, dtype=torch.float64)
        model = actgp.deep_gp(3, num_layers=2, num_inducing=8, likelihood=_noise(), generator=g).double()
        recipe = actgp.Recipe(network_steps=30, num_steps=30, batch_size=40, calibrate=False)
        actgp.fit(model, X, y, recipe, generator=g, checkpoint=folder / "run.ckpt", progress=False)
        torch.save(model.state_dict(), folder / f"model{rank}.pt")
        if size > 1:
            distributed.destroy_process_group()
    except Exception as error:
        (folder / f"error{rank}").write_text(str(error))
        raise SystemExit(1) from error


def _noise() -> Any:
    return importlib.import_module("gpytorch.likelihoods").GaussianLikelihood()


def start(size: int, folder: Path) -> list[BaseProcess]:
    """Starts the ranks of a job."""
    for old in (*folder.glob("model*"), *folder.glob("error*")):
        old.unlink()
    attempt = folder / "attempt"
    attempt.write_text(str(int(attempt.read_text()) + 1 if attempt.exists() else 0))
    ranks: list[BaseProcess] = [FORK.Process(target=job, args=(rank, size, folder)) for rank in range(size)]
    for process in ranks:
        process.start()
    return ranks


def kill_in_training(whole: bool, seconds: float, expected: dict[str, Tensor], g: random.Random) -> dict[str, Any]:
    """Kills a rank, or all, after some time; waits for the others; runs the job again."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ranks = start(2, folder)
        moment = g.uniform(0, seconds)
        time.sleep(moment)
        victims = ranks if whole else [g.choice(ranks)]
        for victim in victims:
            assert victim.pid is not None
            if victim.is_alive():
                os.kill(victim.pid, signal.SIGKILL)
        died = time.monotonic()
        for process in ranks:
            process.join(timeout=120)
        waited = time.monotonic() - died
        codes = [process.exitcode for process in ranks]
        said = [path.read_text()[:60] for path in sorted(folder.glob("error*"))]
        saved = (folder / "run.ckpt").exists()
        silent = any(code == 0 for code in codes) and not all(code == 0 for code in codes) and not said
        finished = all(code == 0 for code in codes)
        again = g.choice([1, 2])
        for process in start(again, folder):
            process.join(timeout=300)
        found = torch.load(folder / "model0.pt")
    off = max((found[key] - values).abs().max().item() for key, values in expected.items() if values.isfinite().all())
    return {
        "killed": "job" if whole else "rank",
        "after_seconds": moment,
        "exit_codes": codes,
        "others_ended_after_seconds": waited,
        "others_said": said,
        "there_was_a_checkpoint": saved,
        "all_had_finished": finished,
        "ranks_of_the_next_run": again,
        "largest_difference": off,
        "good": off < TOLERANCE and waited < 60 and not silent,
    }


def cell(i: int, folder: Path) -> dict[str, Any]:
    """A tenth of a second of work."""
    time.sleep(0.1)
    return {"cell": i}


def kill_in_grid(g: random.Random) -> dict[str, Any]:
    """Kills one of two Dask workers after some results."""
    cluster = importlib.import_module("distributed")
    moment = g.randrange(CELLS - 1)
    with (
        tempfile.TemporaryDirectory() as name,
        cluster.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as workers,
        cluster.Client(workers) as client,
    ):
        victim = g.choice(sorted(client.run(os.getpid).values()))
        store = Store(Path(name) / "grid.jsonl")
        for done, _ in enumerate(
            run_cells(partial(cell, folder=Path(name)), range(CELLS), store, workers.scheduler_address)
        ):
            if done == moment:
                os.kill(victim, signal.SIGKILL)
        stored = sorted(record["cell"] for record in store.records())
    return {
        "killed": "Dask worker",
        "after_cells": moment + 1,
        "stored": len(stored),
        "good": stored == list(range(CELLS)),
    }


def main(
    times: Annotated[int, typer.Option(help="How many are killed.")] = 20,
    results: Annotated[Path, typer.Option(help="Where results are appended.")] = RESULTS,
    seed: Annotated[int, typer.Option(help="Of the moments.")] = 0,
) -> None:
    """Kills, and says what came of it; fails if anything was lost, wrong or silent."""
    torch.set_num_threads(1)
    store, g = Store(results), random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        began = time.monotonic()
        for process in start(2, Path(name)):
            process.join()
        seconds = time.monotonic() - began
        expected = torch.load(Path(name) / "model0.pt")
    bad = 0
    for i in range(times):
        kind = i % 3
        found = kill_in_grid(g) if kind == 2 else kill_in_training(kind == 1, seconds, expected, g)
        store.append({"revision": revision(), "seed": seed, "number": i, **found})
        sys.stdout.write(json.dumps(found) + "\n")
        bad += not found["good"]
    if bad:
        raise SystemExit(f"{bad} of {times} ended badly; see {results}")


if __name__ == "__main__":
    typer.run(main)
