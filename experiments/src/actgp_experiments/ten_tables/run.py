"""One table through fit, predict and page, and its scores beside those of trees with quantiles."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from actgp.page import numbers, write_page
from actgp.tables import Effort
from actgp.tabular import Settings, fit_frame, predict_file, read_table
from actgp_experiments.ten_tables.cases import CASES, write_case
from actgp_experiments.ten_tables.quantiles import trees_of_labels, trees_of_targets

QUICK_ROWS = 200


def run_case(
    name: str,
    folder: Path,
    *,
    rows: int | None = None,
    effort: Effort = "balanced",
    time_budget: float | None = None,
    seed: int = 0,
    fast: bool = False,
) -> dict[str, Any]:
    """What came of it.

    Args:
        name: Which table.
        folder: Where its files are written.
        rows: How many rows it has; as usual by default.
        effort: How much time is spent.
        time_budget: Seconds.
        seed: Of the table, the split and the fit.
        fast: Whether the student predicts the file.
    """
    path, _ = write_case(name, folder, rows, seed)
    began, cpu = time.perf_counter(), time.process_time()
    settings = Settings(CASES[name].target, effort=effort, time_budget=time_budget, seed=seed)
    fitting = fit_frame(read_table(path), settings)
    model = replace(fitting.model, page=numbers(fitting))
    model.save(folder / f"{name}.actgp")
    write_page(model, folder / f"{name}.html")
    fitted, fitted_cpu = time.perf_counter() - began, time.process_time() - cpu
    predicted = predict_file(model, path, folder / f"{name}_predicted.csv", fast=fast)
    compare = trees_of_targets if model.task == "regression" else trees_of_labels
    trees = compare(fitting.train, fitting.train_y, fitting.test, fitting.y)
    ours = fitting.scores[0].values
    point = "RMSE" if model.task == "regression" else "accuracy"
    return {
        "table": name,
        "task": model.task,
        "rows": len(fitting.train) + len(fitting.test),
        "columns": fitting.train.shape[1],
        "effort": effort,
        "seed": seed,
        "time_budget": time_budget,
        "nlpd": ours.get("NLPD", ours.get("log-loss")),
        "nlpd_trees": trees.nlpd,
        point: ours[point],
        f"{point}_trees": trees.point,
        "coverage": ours.get("coverage"),
        "coverage_trees": trees.coverage,
        "fit_seconds": round(fitted, 1),
        "fit_cpu_seconds": round(fitted_cpu, 1),
        "predicted_rows_a_second": round(predicted.rows / predicted.seconds),
        "fast": fast,
    }
