"""Rows on the disk: each is seen once in a pass, none that is held out is trained on, and little is in memory."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet
import pytest
import torch

import actgp
from actgp import Recipe, on_disk
from actgp.on_disk import Table, table_of
from actgp.training import blocks, ranks
from actgp.training.blocks import BlockBatches
from actgp.training.data import data_of_stages

N = 203
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_disk, "BLOCK", 16)
    monkeypatch.setattr(blocks, "BUFFER", 40)


def model_of() -> actgp.DeepGP:
    return actgp.deep_gp(2, num_layers=1, num_inducing=4)


def rows() -> tuple[np.ndarray, np.ndarray]:
    first = np.arange(float(N), dtype=np.float32)
    return np.stack([first, np.sin(first)], 1), first


@pytest.fixture(params=["memmap", "parquet", "feather"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    X, y = rows()
    if request.param == "memmap":
        np.save(tmp_path / "X.npy", X)
        given = np.load(tmp_path / "X.npy", mmap_mode="r"), y
    else:
        columns = pa.table({"a": X[:, 0], "t": y, "b": X[:, 1].astype(np.float64)})
        if request.param == "parquet":
            pyarrow.parquet.write_table(columns, tmp_path / "rows.parquet", row_group_size=16)
        else:
            for i, start in enumerate(range(0, N, 16)):
                pa.feather.write_feather(columns.slice(start, 16), tmp_path / f"{i:02d}.feather")
        given = pyarrow.dataset.dataset(tmp_path, format=request.param), "t"
    found = table_of(*given)
    assert found is not None
    return found


def batches_of(table: Table, without: torch.Tensor | None = None) -> BlockBatches:
    return BlockBatches(table, model_of(), CPU, 7, torch.Generator().manual_seed(0), without)


def one_pass(batches: BlockBatches) -> torch.Tensor:
    parts: list[torch.Tensor] = []
    while sum(map(len, parts)) < batches.num_data:
        X, y = batches.next()
        torch.testing.assert_close(X[:, 0], y[:, 0])
        parts.append(y[:, 0])
    return torch.cat(parts)


def test_a_pass_has_every_row_once_in_an_order_of_its_own(table: Table) -> None:
    batches = batches_of(table)
    passes = [one_pass(batches) for _ in range(2)]
    for seen in passes:
        assert torch.equal(seen.sort().values, torch.arange(float(N)))
    assert not torch.equal(*passes)
    assert len(passes[0][:14].div(16, rounding_mode="floor").unique()) > 1  # rows of several blocks are mixed
    assert torch.equal(torch.cat([y[:, 0] for _, y in batches.all()]), torch.arange(float(N)))
    assert torch.equal(torch.cat([y[:, 0] for _, y in batches.sample(N)]), torch.arange(float(N)))
    some = torch.cat([y[:, 0] for _, y in batches.sample(60)])
    assert len(some) == len(some.unique()) == 60
    assert some.std() > 40
    chosen = torch.tensor([3, 16, 17, 202])
    assert batches.rows(chosen)[1][:, 0].tolist() == [3, 16, 17, 202]


def test_rows_that_are_left_out_never_come(table: Table) -> None:
    without = torch.cat([torch.arange(16), torch.tensor([20, 21, 202])])  # a whole block, and some
    batches = batches_of(table, without)
    assert batches.num_data == N - 19
    left = torch.tensor([i for i in range(N) if i not in set(without.tolist())], dtype=torch.float32)
    assert torch.equal(one_pass(batches).sort().values, left)
    assert torch.equal(torch.cat([y[:, 0] for _, y in batches.all()]), left)


@pytest.mark.parametrize("steps", [0, 3, 6, 31])
def test_an_order_is_taken_up_where_it_was_left(table: Table, steps: int) -> None:
    batches, another = batches_of(table), batches_of(table)
    another.generator.manual_seed(5)
    for _ in range(steps):
        batches.next()
    another.restore(batches.state())
    for _ in range(40):
        assert torch.equal(batches.next()[0], another.next()[0])
    assert batches.fingerprint() == another.fingerprint()


def test_stages_hold_out_other_rows(table: Table) -> None:
    generator = torch.Generator().manual_seed(0)
    first, second, last = data_of_stages(model_of(), table, None, Recipe(), CPU, generator)
    judged = []
    for stage in (first, second):
        assert stage.held_out is not None
        judged.append(set(stage.held_out[1][:, 0].tolist()))
        trained = set(torch.cat([y[:, 0] for _, y in stage.batches.all()]).tolist())
        assert len(judged[-1]) == 20
        assert trained.isdisjoint(judged[-1])
    assert judged[0].isdisjoint(judged[1])
    assert first.batches.num_data == N - 40
    assert second.batches.num_data == N - 20
    assert (last.batches.num_data, last.held_out) == (N, None)


def test_ranks_read_other_blocks(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "size", lambda: 2)
    seen = []
    for rank in range(2):
        monkeypatch.setattr(ranks, "rank", lambda rank=rank: rank)
        batches = batches_of(table)
        assert batches.batch_size == 4
        seen.append({y.item() for _ in range(24) for y in batches.next()[1]})  # less than a pass
    assert seen[0].isdisjoint(seen[1])
    monkeypatch.setattr(ranks, "size", lambda: 99)
    with pytest.raises(ValueError, match="in at least as many blocks as there are ranks, got 13 for 99; write smaller"):
        batches_of(table)


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    X, y = rows()
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    with pytest.raises(ValueError, match="y must have a row for each row of X, got 9 for 203 rows; pass another"):
        actgp.fit(model_of(), mapped, y[:9])
    with pytest.raises(ValueError, match="must have targets to be trained on, got none; pass y, for a data set the"):
        actgp.fit(model_of(), mapped)
    pyarrow.parquet.write_table(pa.table({"a": X[:, 0], "t": y}), tmp_path / "rows.parquet")
    dataset = pyarrow.dataset.dataset(tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match="must name the columns .* are targets, got 'z', where .*'a', 't'"):
        actgp.fit(model_of(), dataset, "z")
    with pytest.raises(ValueError, match="X must have 2 columns, got 1; select those columns"):
        actgp.fit(model_of(), dataset, "t")


FLAT = """
import resource
import sys

import numpy as np

import actgp

N, path = int(sys.argv[1]), sys.argv[2]
X = np.memmap(path, dtype=np.float32, mode="w+", shape=(N, 10))
g = np.random.default_rng(0)
for start in range(0, N, 10_000):
    X[start : start + 10_000] = g.standard_normal((min(10_000, N - start), 10), dtype=np.float32)
y = np.memmap(path + "y", dtype=np.float32, mode="w+", shape=N)
y[:] = np.sin(X[:, 0])
X.flush(), y.flush()
X, y = np.memmap(path, dtype=np.float32, mode="r", shape=(N, 10)), np.memmap(path + "y", np.float32, "r", shape=N)


def anonymous():
    lines = open("/proc/self/status").read().split("\\n")
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon"))


model, most = actgp.deep_gp(10, num_layers=2, num_inducing=8), [0.0]
recipe = actgp.Recipe(network_steps=30, num_steps=30, num_samples=1)
result = actgp.fit(
    model, X, y, recipe, progress=False, callback=lambda step: most.append(anonymous())
)
print(max(most), result.held_out)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    """From 2e5 rows to 1e6 (40 MB more), through validation, warm start and calibration."""
    most = []
    for rows_ in (200_000, 1_000_000):
        done = subprocess.run(
            [sys.executable, "-c", FLAT, str(rows_), str(tmp_path / "X")], capture_output=True, text=True, check=True
        )
        megabytes, held_out = map(float, done.stdout.split())
        assert held_out > -1.5
        most.append(megabytes)
    assert most[1] < most[0] + 15, most
