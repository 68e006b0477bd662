"""Writes what the page asks: model.onnx, and columns.json with a slider for each column."""

import json
import sys
from pathlib import Path

import torch
from sklearn.datasets import load_diabetes

import actgp

LEVEL = 0.95


def main(folder: Path) -> None:
    """Into a folder, for the diabetes table of scikit-learn."""
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    regressor = actgp.DGPRegressor(effort="fast", random_state=0).fit(X, y)
    rows = torch.from_numpy(regressor.encode(X)).float()  # what browsers hold numbers in
    actgp.export(regressor.distill(X), folder / "model.onnx", rows, level=LEVEL)
    columns = [
        {"name": name, "low": X[name].min(), "high": X[name].max(), "start": X[name].median()} for name in X.columns
    ]
    about = {"target": "progression", "level": LEVEL, "low": y.min(), "high": y.max(), "columns": columns}
    (folder / "columns.json").write_text(json.dumps(about, default=float))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
