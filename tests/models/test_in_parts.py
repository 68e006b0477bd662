"""Predictions part by part are those of all rows."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import actgp


@pytest.mark.parametrize("source", ["memmap", "parquet", "loader", "pairs", "tensors"])
def test_parts_are_those_of_the_whole(source: str, tmp_path: Path, generator: torch.Generator) -> None:
    X = torch.randn(50, 3, generator=generator, dtype=torch.float64)
    model = actgp.deep_gp(3, num_layers=2, num_inducing=8, generator=generator).double()
    actgp.start_network(model, X, generator=generator)
    options = {}
    if source == "memmap":
        np.save(tmp_path / "X.npy", X.numpy())
        given = np.load(tmp_path / "X.npy", mmap_mode="r")
    elif source == "parquet":
        columns = dict(zip("abc", X.T.numpy(), strict=True))
        table = pa.table({"t": X[:, 0].numpy(), **columns})
        pyarrow.parquet.write_table(table, tmp_path / "X.parquet", row_group_size=20)
        given, options = pyarrow.dataset.dataset(tmp_path / "X.parquet"), {"targets": "t"}
    else:
        pairs = TensorDataset(*[X] * (1 + (source == "pairs")))
        given = X.split(20) if source == "tensors" else DataLoader(pairs, batch_size=20)
    parts = list(actgp.predict_in_parts(model, given, 5, rows=15, **options))
    assert max(len(part.mean) for part in parts) == 15
    expected = model.predict(X, 5)
    for name in ("mean", "variance"):
        together = torch.cat([getattr(part, name) for part in parts])
        torch.testing.assert_close(together, getattr(expected, name), rtol=1e-10, atol=1e-12)


def test_no_rows_at_a_time_are_refused() -> None:
    with pytest.raises(ValueError, match="rows must be at least 1, got 0; raise it to 1 or more"):
        next(actgp.predict_in_parts(actgp.deep_gp(2), [torch.zeros(3, 2)], rows=0))
