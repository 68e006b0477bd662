"""The benchmark's contestants run, and its report says what was measured."""

import json
from pathlib import Path

import pytest
import torch

from benchmarks import floor, gpytorch_dgp, laplace_net, network, ours
from benchmarks.grid import heats
from benchmarks.problem import Problem
from benchmarks.report import BEGIN, END, check_steps, write_report

TINY = Problem(input_dim=2, num_inducing=8, batch=9, num_samples=2, rows=50, prediction_samples=3, num_data=60)
CONTESTANTS = {
    "step": ours.step,
    "step with points": ours.step_with_points,
    "network step": ours.network_step,
    "network step with points": ours.network_step_with_points,
    "warm start": ours.warm_start,
    "prediction": ours.predict,
    "plain network": network.step,
    "half of it": network.half_step,
    "its prediction": network.predict,
    "floor": floor.step,
    "floor of a prediction": floor.predict,
    "GPyTorch": gpytorch_dgp.step,
    "its prediction ": gpytorch_dgp.predict,
    "laplace-torch": laplace_net.fit,
    "its prediction  ": laplace_net.predict,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", list(CONTESTANTS))
def test_contestants_run(name: str) -> None:
    run = CONTESTANTS[name](TINY)
    run()
    run()


def test_every_axis_is_measured_and_peers_take_part_side_by_side() -> None:
    found = heats(None, quick=True)
    side_by_side = [heat for heat in found if heat.axis is None]
    assert {name for heat in side_by_side for name in heat.contestants} >= {"actgp", "network", "floor", "GPyTorch"}
    assert {heat.threads for heat in side_by_side} == {1, torch.get_num_threads()}
    assert {heat.axis for heat in found} >= {"input_dim", "num_inducing", "num_outputs", "batch", "num_samples", "rows"}


def test_gpflux_is_measured_apart_from_the_others() -> None:
    without, beside = heats(None, quick=True), heats("python", quick=True)
    more = [heat for heat in beside if heat.what.endswith("beside GPflux")]
    assert [heat.what for heat in more] == ["step beside GPflux", "predict beside GPflux"]
    assert all({"actgp", "GPflux, float32"} <= set(heat.contestants) for heat in more)
    assert len(beside) == len(without) + 2


def line(axis: str | None, value: int, contestant: str, seconds: float) -> dict[str, object]:
    common = {"what": "step", "axis": axis, "threads": 2, "problem": {"num_inducing": value}}
    return common | {"contestant": contestant, "seconds": [seconds, seconds, seconds]}


def test_a_step_that_takes_more_than_a_fifth_of_the_time_of_gpytorchs_fails(tmp_path: Path) -> None:
    results = tmp_path / "raw.jsonl"
    for seconds in (0.019, 0.021):
        records = [line(None, 128, "actgp", seconds), line(None, 128, "GPyTorch", 0.1)]
        results.write_text("".join(json.dumps(record) + "\n" for record in records))
        if seconds < 0.02:
            check_steps(results)
    with pytest.raises(SystemExit, match="in at most 0.2 of the time of GPyTorch's deep GP, got 0.21 with threads=2"):
        check_steps(results)


def test_the_report_gives_ratios_and_exponents(tmp_path: Path) -> None:
    versions = dict.fromkeys(("python", "torch", "gpytorch", "laplace"), "1.0")
    about = {"what": "about", "processor": "x", "threads": 1, **versions}
    records = [about, line(None, 128, "actgp", 0.01), line(None, 128, "network", 0.002)]
    records += [line(None, 128, "GPyTorch", 0.08)]
    records += [line("num_inducing", M, "actgp", 1e-8 * M**3) for M in (64, 128, 256)]
    records += [{"what": "memory", "rows": rows, "mebibytes": 500.0} for rows in (10, 100)]
    results, page = tmp_path / "raw.jsonl", tmp_path / "page.md"
    results.write_text("".join(json.dumps(record) + "\n" for record in records))
    page.write_text(f"before {BEGIN} old {END} after")
    write_report(results, page)
    text = page.read_text()
    assert text.startswith("before ")
    assert text.endswith(" after")
    assert "old" not in text
    assert "| a step, 2 threads | ms |" in text
    assert "| actgp | 10 | 10 – 10 | 5 | 0.125 |" in text
    assert "of the time of GPyTorch's deep GP, **0.125** with 2 threads" in text
    assert "power 3.00 | 3.00" in text
    assert (tmp_path / "page.png").stat().st_size > 1_000
