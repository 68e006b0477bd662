"""Who is measured where: all contestants at one problem, and the cost along each axis through it."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch

from benchmarks import floor, gpflux_dgp, gpytorch_dgp, laplace_net, network, ours
from benchmarks.problem import Problem

Contestant = Callable[[], None]
BASE = Problem()

AXES: dict[str, tuple[int, ...]] = {
    "input_dim": (4, 8, 13),
    "num_inducing": (64, 128, 256, 512),
    "num_outputs": (1, 4, 16),
    "batch": (64, 128, 256, 512, 1024),
    "num_samples": (1, 2, 4, 8),
}
PREDICTION_AXES: dict[str, tuple[int, ...]] = {
    "rows": (2_500, 10_000, 40_000),
    "prediction_samples": (5, 10, 20),
}
DATA_AXIS = (2_500, 10_000, 40_000)


class Heat(NamedTuple):
    """Contestants that take turns at a problem, or at several along an axis: noise hits these alike, too.

    All of them are in memory together.
    """

    what: str
    axis: str | None
    problems: tuple[Problem, ...]
    contestants: dict[str, Callable[[Problem], Contestant]]
    rounds: int
    threads: int
    apart: bool = False  # whether some run in processes of their own
    in_a_row: int = 1  # runs of each in a turn


def heats(gpflux_python: str | None, quick: bool) -> list[Heat]:
    """All of them, the side-by-side comparisons first: with all threads, and those of one process with one."""
    step: dict[str, Callable[[Problem], Contestant]] = {
        "actgp": ours.step,
        "actgp, with points": ours.step_with_points,
        "actgp, stage 1": ours.network_step,
        "actgp, stage 1, with points": ours.network_step_with_points,
        "network": network.step,
        "network, half as wide": network.half_step,
        "floor": floor.step,
        "GPyTorch": gpytorch_dgp.step,
    }
    predict: dict[str, Callable[[Problem], Contestant]] = {
        "actgp": ours.predict,
        "network": network.predict,
        "floor": floor.predict,
        "GPyTorch": gpytorch_dgp.predict,
        "laplace-torch": laplace_net.predict,
    }
    threads, rounds, few = torch.get_num_threads(), 5 if quick else 150, 2 if quick else 5
    pass_over_data = {"actgp, warm start": ours.warm_start, "laplace-torch, fit": laplace_net.fit}
    found = [
        Heat("step", None, (BASE,), step, rounds, threads),
        Heat("predict", None, (BASE,), predict, few, threads),
        Heat("pass", None, (BASE,), pass_over_data, few, threads),
    ]
    if threads > 1:
        found += [Heat("step", None, (BASE,), step, rounds, 1), Heat("predict", None, (BASE,), predict, few, 1)]
    if gpflux_python is not None:
        found += _beside_gpflux(gpflux_python, step, predict, rounds, few)
    light = {name: step[name] for name in ("actgp", "actgp, stage 1", "network", "floor")}
    for axis, values in AXES.items():
        with_peer = light | {"GPyTorch": step["GPyTorch"]} if axis in ("input_dim", "num_inducing") else light
        found.append(_along("step", axis, values[:2] if quick else values, with_peer, max(3, rounds // 5)))
    own = {name: predict[name] for name in ("actgp", "floor")}
    for axis, values in PREDICTION_AXES.items():
        found.append(_along("predict", axis, values[:2] if quick else values, own, few))
    values = DATA_AXIS[:2] if quick else DATA_AXIS
    found.append(_along("pass", "num_data", values, {"actgp, warm start": ours.warm_start}, few))
    return found


def _beside_gpflux(
    python: str,
    step: dict[str, Callable[[Problem], Contestant]],
    predict: dict[str, Callable[[Problem], Contestant]],
    rounds: int,
    few: int,
) -> list[Heat]:
    """By themselves: threads of GPflux's processes disturb everybody."""
    found = []
    for what, all_of_them, turns in (("step", step, rounds), ("predict", predict, few)):
        theirs = {
            f"GPflux, float{bits}": lambda p, w=what, b=bits: gpflux_dgp.command(p, w, python, b) for bits in (32, 64)
        }
        threads, in_a_row = torch.get_num_threads(), 5 if what == "step" else 1
        found.append(
            Heat(
                f"{what} beside GPflux",
                None,
                (BASE,),
                {"actgp": all_of_them["actgp"]} | theirs,
                turns,
                threads,
                True,
                in_a_row,
            )
        )
    return found


def _along(
    what: str, axis: str, values: tuple[int, ...], contestants: dict[str, Callable[[Problem], Contestant]], rounds: int
) -> Heat:
    problems = tuple(replace(BASE, **{axis: value}) for value in values)
    return Heat(what, axis, problems, contestants, rounds, torch.get_num_threads())
