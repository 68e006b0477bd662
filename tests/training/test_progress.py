"""The bar is there on a terminal, and nothing is written elsewhere."""

import io
import sys

import pytest
import torch

import actgp
from actgp.training import progress
from actgp.training.progress import progress_bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_sees_steps_and_objective(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with progress_bar("fit SVGP", 2) as report:
        report(-1.0)
        report(-0.5)
    text = terminal.getvalue()
    assert "fit SVGP" in text
    assert "2/2" in text
    assert "objective -0.5" in text


@pytest.mark.parametrize("progress", [True, False])
def test_fits_show_it_where_it_is_wanted(progress: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    X, recipe = torch.randn(20, 1, dtype=torch.float64), actgp.Recipe(network_steps=1, num_steps=1)
    deep = actgp.deep_gp(1, num_layers=1, num_inducing=4).double()
    for model, data in ((deep, (X, X[:, 0])), (actgp.GPR(X, X[:, 0], actgp.ArcCosine(1)), ())):
        actgp.fit(model, *data, recipe=recipe, progress=progress)
        assert (f"fit {type(model).__name__}" in terminal.getvalue()) == progress


def test_a_run_taken_up_again_is_shown_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with progress_bar("fit", 10, done=7) as report:
        report(0.0)
    assert "8/10" in terminal.getvalue()


def test_a_file_stays_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", file := io.StringIO())
    with progress_bar("fit", 1) as report:
        report(0.0)
    assert file.getvalue() == ""


def test_a_file_gets_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 4.0, 12.0, 14.0])
    monkeypatch.setattr(progress.time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(sys, "stderr", file := io.StringIO())
    with progress_bar("fit", 9, done=1) as report:
        for objective in (3.0, 2.0, 1.0):
            report(objective)
    (line,) = file.getvalue().splitlines()
    assert line.endswith("fit 3/9, objective 2, 36 s left at most")  # two steps in 12 s, six to go
