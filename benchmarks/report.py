"""Tables and a plot from stored results."""

import json
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import LogLocator, StrMethodFormatter

Record = dict[str, Any]

BEGIN, END = "<!-- measured -->", "<!-- end of measured -->"
TITLES = {
    "input_dim": "inputs D",
    "num_inducing": "inducing variables M",
    "num_outputs": "outputs P",
    "batch": "rows of a batch",
    "num_samples": "samples S",
    "rows": "rows to predict",
    "prediction_samples": "samples of a prediction",
    "num_data": "rows of data",
}
NAMES = {
    "step": "a step",
    "predict": "a prediction",
    "pass": "a pass over the data",
    "step beside GPflux": "a step beside GPflux",
    "predict beside GPflux": "a prediction beside GPflux",
}
UNITS = {what: ("ms", 1e3) if what.startswith("step") else ("s", 1.0) for what in NAMES}
PEERS = ("network", "floor", "GPyTorch", "GPflux, float32")
COLOURS = {"actgp": "C0", "actgp, stage 1": "C2", "actgp, warm start": "C4", "GPyTorch": "C3"}
GREYS = {"network": "0.55", "floor": "0.2"}
LARGEST_RATIO = 1 / 5  # of a step's time to that of GPyTorch's


def write_report(results: Path, page: Path) -> None:
    """Writes tables between the page's marks, and the plot beside it."""
    records = _read(results)
    plot = page.with_suffix(".png")
    _plot(records, plot)
    measured = "\n\n".join(
        [
            _about(records),
            _beside_gpytorch(records),
            _side_by_side(records),
            _exponents(records),
            _memory(records),
            f"![Cost along each axis]({plot.name})",
        ]
    )
    text = page.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    page.write_text(f"{before}{BEGIN}\n\n{measured}\n\n{END}{after}")


def check_steps(results: Path) -> None:
    """Fails where a step of the ELBO takes more of the time of GPyTorch's than it may."""
    for threads, ratio in _ratios_to_gpytorch(_read(results)).items():
        if ratio > LARGEST_RATIO:
            raise SystemExit(
                f"expected a step in at most {LARGEST_RATIO:.2g} of the time of GPyTorch's deep GP, got {ratio:.3g} "
                f"with threads={threads}; find what has made it slower"
            )


def _read(results: Path) -> list[Record]:
    return [json.loads(line) for line in results.read_text().splitlines()]


def _ratios_to_gpytorch(records: list[Record]) -> dict[int, float]:
    """Median times of a step relative to those of GPyTorch's deep GP, for each number of threads."""
    medians = {
        (r["threads"], r["contestant"]): median(r["seconds"])
        for r in records
        if r["what"] == "step" and r["axis"] is None
    }
    return {threads: own / medians[threads, "GPyTorch"] for (threads, who), own in medians.items() if who == "actgp"}


def _beside_gpytorch(records: list[Record]) -> str:
    found = _ratios_to_gpytorch(records).items()
    parts = " and ".join(f"**{ratio:.3g}** with {_threads(threads)}" for threads, ratio in found)
    return (
        f"A step of the ELBO takes, of the time of GPyTorch's deep GP, {parts}; `make bench` fails above "
        f"{LARGEST_RATIO:.2g}."
    )


def _threads(number: int) -> str:
    return f"{number} thread{'s' if number > 1 else ''}"


def _about(records: list[Record]) -> str:
    about = next(r for r in records if r["what"] == "about")
    versions = ", ".join(f"{name} {about[name]}" for name in ("python", "torch", "gpytorch", "laplace"))
    return f"One run, {about['threads']} threads of {about['processor']}; {versions}."


def _side_by_side(records: list[Record]) -> str:
    lines = []
    by_heat: dict[tuple[str, int], list[Record]] = {}
    for r in records:
        if r["what"] in NAMES and r["axis"] is None:
            by_heat.setdefault((r["what"], r["threads"]), []).append(r)
    for (what, threads), chosen in by_heat.items():
        name = f"{NAMES[what]}, {_threads(threads)}"
        unit, factor = UNITS[what]
        medians = {r["contestant"]: median(r["seconds"]) for r in chosen}
        against = [peer for peer in PEERS if peer in medians]
        heads = [name, unit, "quartiles", *(f"× {peer}" for peer in against)]
        lines.append(f"| {' | '.join(heads)} |")
        lines.append("|---" * (3 + len(against)) + "|")
        for r in sorted(chosen, key=lambda r: medians[r["contestant"]]):
            low, _, high = quantiles(r["seconds"], n=4)
            own = medians[r["contestant"]]
            ratios = " | ".join(f"{own / medians[peer]:.3g}" for peer in against)
            cells = [f"{factor * own:.3g}", f"{factor * low:.3g} – {factor * high:.3g}", *([ratios] if against else [])]
            lines.append(f"| {r['contestant']} | " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines).strip()


def _exponents(records: list[Record]) -> str:
    lines = ["| along | from – to | who | cost grows as | last doubling |", "|---|---|---|---|---|"]
    for what, axis, who, x, y in _curves(records):
        if not who.startswith("actgp"):
            continue
        slope = np.polyfit(np.log(x), np.log(y), 1)[0]
        last = np.log(y[-1] / y[-2]) / np.log(x[-1] / x[-2])
        lines.append(f"| {TITLES[axis]} | {x[0]} – {x[-1]} | {who}, {NAMES[what]} | power {slope:.2f} | {last:.2f} |")
    return "\n".join(lines)


def _memory(records: list[Record]) -> str:
    found = {r["rows"]: r["mebibytes"] for r in records if r["what"] == "memory"}
    parts = " and ".join(f"{mebibytes:.0f} MiB for {rows:,} rows" for rows, mebibytes in found.items())
    return f"Peak memory of a process that predicts: {parts}, the results themselves included."


def _curves(records: list[Record]) -> list[tuple[str, str, str, list[int], list[float]]]:
    """(what, axis, contestant, values, median seconds), in the order of the records."""
    curves: dict[tuple[str, str, str], dict[int, float]] = {}
    for r in records:
        if r.get("axis") is not None:
            key = (r["what"], r["axis"], r["contestant"])
            curves.setdefault(key, {})[r["problem"][r["axis"]]] = median(r["seconds"])
    return [(*key, list(points), list(points.values())) for key, points in curves.items()]


def _plot(records: list[Record], path: Path) -> None:
    panels: dict[tuple[str, str], list[Callable[[plt.Axes], None]]] = {}
    for what, axis, who, x, y in _curves(records):

        def draw(ax: plt.Axes, who: str = who, x: list[int] = x, y: list[float] = y) -> None:
            colour = COLOURS.get(who) or GREYS.get(who, "0.7")
            ax.loglog(x, 1e3 * np.array(y), "o-", ms=3, lw=1.5, color=colour, label=who)

        panels.setdefault((what, axis), []).append(draw)
    columns = 4
    rows = -(-len(panels) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(12, 2.9 * rows), layout="constrained", squeeze=False)
    for ax in axes.flat[len(panels) :]:
        ax.axis("off")
    for ax, ((what, axis), curves) in zip(axes.flat, panels.items(), strict=False):
        for draw in curves:
            draw(ax)
        ticks = sorted({x for w, a, _, xs, _ in _curves(records) if (w, a) == (what, axis) for x in xs})
        ax.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
        ax.minorticks_off()
        ax.set(title=NAMES[what], xlabel=TITLES[axis])
        ax.grid(alpha=0.3)
        ax.spines[["top", "right"]].set_visible(False)
    for ax in axes[:, 0]:
        ax.set_ylabel("ms")
    labels = {}
    for ax in axes.flat:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            labels.setdefault(label, handle)
    figure.legend(list(labels.values()), list(labels), loc="outside lower center", ncols=len(labels), frameon=False)
    figure.savefig(path, dpi=110)
    plt.close(figure)
