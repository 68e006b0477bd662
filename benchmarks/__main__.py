"""Runs the benchmark: contestants take turns, so that noise hits them alike.

python -m benchmarks [--quick]     (ACTGP_GPFLUX_PYTHON: an interpreter that has GPflux)
"""

import gc
import json
import os
import platform
import random
import resource
import subprocess
import sys
import time
from dataclasses import asdict, replace
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import gpytorch
import torch
import typer
from rich.console import Console
from rich.progress import track

import actgp
from benchmarks import ours
from benchmarks.grid import BASE, Heat, heats
from benchmarks.problem import Problem
from benchmarks.report import check_steps, write_report

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "results/performance.jsonl", ROOT / "docs/performance.md"
MEMORY_ROWS = (10_000, 100_000)
PAUSE = 0.02  # seconds, in which threads of another process stop spinning
LEAD = 2  # runs that do not count, of those in a row: threads that slept for long are woken on the wrong core


def measure(heat: Heat) -> list[dict[str, Any]]:
    """Seconds of each contestant in each round, after rounds that do not count."""
    threads = torch.get_num_threads()
    torch.set_num_threads(heat.threads)
    running = {(name, problem): make(problem) for problem in heat.problems for name, make in heat.contestants.items()}
    seconds: dict[tuple[str, Problem], list[float]] = {entry: [] for entry in running}
    order, shuffled = list(running.items()), random.Random(0)
    for turn in range(-2, heat.rounds):
        shuffled.shuffle(order)  # nobody always comes after the same one
        for entry, run in order:
            if heat.apart:
                time.sleep(PAUSE)
            for i in range(heat.in_a_row):
                start = time.perf_counter()
                run()
                if turn >= 0 and (i >= LEAD or heat.in_a_row <= LEAD):
                    seconds[entry].append(time.perf_counter() - start)
    del running, order, run
    gc.collect()
    torch.set_num_threads(threads)
    common = {"what": heat.what, "axis": heat.axis, "threads": heat.threads}
    return [
        common | {"problem": asdict(problem), "contestant": name, "seconds": values}
        for (name, problem), values in seconds.items()
    ]


def peak_memory(rows: int) -> float:
    """MiB that a process which predicts so many rows has needed."""
    run = [sys.executable, "-m", "benchmarks", "--only-predict", str(rows)]
    return float(subprocess.run(run, capture_output=True, text=True, check=True, cwd=ROOT).stdout)


def own_peak() -> float:
    """MiB that this process has needed; what getrusage says on Linux may be of the process that started it."""
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    unit = 1024**2 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def main(
    results: Annotated[Path, typer.Option(help="Where raw results go, as JSON lines.")] = RESULTS,
    page: Annotated[Path, typer.Option(help="The page whose tables are written anew.")] = PAGE,
    quick: Annotated[bool, typer.Option(help="Fewer rounds and points: does it run?")] = False,
    report_only: Annotated[bool, typer.Option(help="Only write the tables, from stored results.")] = False,
    only_predict: Annotated[int, typer.Option(hidden=True)] = 0,
) -> None:
    """Measures, stores, and writes tables and plot."""
    if only_predict:
        ours.predict(replace(BASE, rows=only_predict))()
        sys.stdout.write(str(own_peak()))
        return
    if quick and (results == RESULTS or page == PAGE):
        raise typer.BadParameter("a quick run must not replace published numbers, got their files; pass both options")
    if not report_only:
        about = {
            "what": "about",
            "processor": platform.processor() or platform.machine(),
            "threads": torch.get_num_threads(),
            "python": platform.python_version(),
            "torch": torch.__version__,
            "gpytorch": gpytorch.__version__,
            "laplace": metadata.version("laplace-torch"),
            "actgp": actgp.__version__,
        }
        lines: list[dict[str, Any]] = [about]
        for heat in track(heats(os.environ.get("ACTGP_GPFLUX_PYTHON"), quick), "heats", console=Console(stderr=True)):
            lines += measure(heat)
        lines += [{"what": "memory", "rows": rows, "mebibytes": peak_memory(rows)} for rows in MEMORY_ROWS]
        results.parent.mkdir(parents=True, exist_ok=True)
        results.write_text("".join(json.dumps(line) + "\n" for line in lines))
    write_report(results, page)
    check_steps(results)


typer.run(main)
