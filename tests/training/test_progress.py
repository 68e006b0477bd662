"""The bar is there on a terminal, and nothing is written elsewhere."""

import io
import sys

import pytest

from actgp.training.progress import progress_bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("show", [True, False])
def test_a_terminal_sees_steps_and_objective(show: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with progress_bar("fit SVGP", 2, show=show) as report:
        report(-1.0)
        report(-0.5)
    text = terminal.getvalue()
    assert ("fit SVGP" in text and "2/2" in text and "objective -0.5" in text) == show
    assert bool(text) == show


def test_a_run_taken_up_again_is_shown_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with progress_bar("fit", 10, show=True, done=7) as report:
        report(0.0)
    assert "8/10" in terminal.getvalue()


def test_a_file_stays_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", file := io.StringIO())
    with progress_bar("fit", 1, show=True) as report:
        report(0.0)
    assert file.getvalue() == ""
