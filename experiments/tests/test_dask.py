"""A grid on a Dask cluster, a scheduler and two workers in processes of their own: one dies, and no cell is lost."""

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from actgp.cli import command_line
from actgp_experiments import commands
from actgp_experiments.store import Record, Store, run_cells
from dask_cell import cell


def start(part: str, *arguments: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", f"distributed.cli.dask_{part}", *map(str, arguments)]
    found = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    return subprocess.Popen(command, env=found, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """The address of the scheduler, and two workers."""
    folder = tmp_path_factory.mktemp("cluster")
    address = f"tcp://127.0.0.1:{20_000 + os.getpid() % 20_000}"
    port = address.rpartition(":")[2]
    scheduler = start("scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard", "--no-show")
    quiet = ["--no-nanny", "--no-dashboard", "--nthreads", 1, "--local-directory", folder]
    workers = [start("worker", address, *quiet, "--name", name) for name in "ab"]
    yield address, workers
    for process in (*workers, scheduler):
        process.kill()
        process.wait()


def test_cells_of_a_worker_that_dies_run_on_another(
    cluster: tuple[str, list[subprocess.Popen[bytes]]], tmp_path: Path
) -> None:
    address, (first, _) = cluster
    store, wanted = Store(tmp_path / "grid.jsonl"), [*range(12), 99]
    running = run_cells(partial(cell, folder=tmp_path), wanted, store, address)
    with pytest.raises(ArithmeticError, match="expected a number that is not 99"):  # after all others have come
        for done, _ in enumerate(running, start=1):
            if done == 4:
                first.kill()
    begun = [line.split() for line in (tmp_path / "begun").read_text().splitlines()]
    assert len({process for _, process in begun}) == 2  # both workers had a part in it
    assert sorted(record["cell"] for record in store.records()) == list(range(12))  # each stored once


def test_uci_goes_to_the_scheduler_that_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = []

    def run_grid(left: object, store: Store, settings: object, jobs: int | str) -> Iterator[Record]:
        asked.append(jobs)
        return iter(())

    monkeypatch.setattr(commands.grid, "run_grid", run_grid)
    monkeypatch.setattr(commands.grid, "grid_cells", lambda *_: [])
    for name in ("uci", "ablation"):
        arguments = ["run", name, "--dask", "tcp://host:8786", "--results", str(tmp_path / "new.jsonl")]
        assert CliRunner().invoke(command_line(), arguments).exit_code == 0
    assert asked == ["tcp://host:8786"] * 2


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(
        ImportError, match="cells on a Dask cluster need dask.distributed, got none .*; run pip install"
    ):
        list(run_cells(lambda i: {}, [1], Store(tmp_path / "grid.jsonl"), "tcp://127.0.0.1:1"))
