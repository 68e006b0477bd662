"""The regret curves of docs/optimisation.md, and their table, from results/optimisation.jsonl."""

from pathlib import Path
from statistics import median

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

from actgp_experiments.store import Record

BEGIN, END = "<!-- measured -->", "<!-- end of measured -->"
COLOURS = {"SingleTaskGP": "0.4", "DeepGPModel": "C0", "DeepGPModel, anew every 10": "C2", "VBLL": "C3"}
COLOURS |= {"DeepGPModel, functions": "C4", "DeepGPModel, bend=0.1": "C1"}

Curves = dict[str, dict[str, dict[int, NDArray[np.float64]]]]  # of each problem and model, by seed


def write_regrets(records: list[Record], page: Path, plot: Path) -> None:
    """Writes the table between the page's marks, and the plot beside it."""
    curves = curves_of(records)
    _plot(curves, plot)
    measured = f"{table(curves)}\n\n![Regret after each evaluation]({plot.name})"
    before, rest = page.read_text().split(BEGIN)
    _, after = rest.split(END)
    page.write_text(f"{before}{BEGIN}\n\n{measured}\n\n{END}{after}")


def curves_of(records: list[Record]) -> Curves:
    """Regrets after each evaluation, of runs of the same length as the last."""
    cells = [record for record in records if "cell" in record]
    length = len(cells[-1]["regret"])
    found: Curves = {}
    for record in cells:
        if len(record["regret"]) == length:
            cell = record["cell"]
            of_model = found.setdefault(cell["problem"], {}).setdefault(cell["model"], {})
            of_model[cell["seed"]] = np.array(record["regret"])
    return found


def table(curves: Curves) -> str:
    """Medians of the last regret, and how often each model did better than `SingleTaskGP` from the same start."""
    models = list(dict.fromkeys(name for of_problem in curves.values() for name in of_problem))
    lines = [f"| | {' | '.join(models)} |", f"|---|{'---|' * len(models)}"]
    for problem, of_problem in curves.items():
        cells = []
        for name in models:
            own, other = of_problem.get(name, {}), of_problem.get("SingleTaskGP", {})
            shared = own.keys() & other.keys()
            wins = sum(bool(own[seed][-1] < other[seed][-1]) for seed in shared)
            beside = "" if name == "SingleTaskGP" else f" (better in {wins} of {len(shared)})"
            cells.append(f"{median(c[-1] for c in own.values()):.3g}{beside}" if own else "")
        lines.append(f"| {problem}, {_runs(of_problem)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _runs(of_problem: dict[str, dict[int, NDArray[np.float64]]]) -> str:
    """How many runs there are of each model: one number if it is the same."""
    counts = sorted({len(runs) for runs in of_problem.values()})
    return f"{' to '.join(map(str, sorted({counts[0], counts[-1]})))} run{'s' if counts[-1] > 1 else ''}"


def _plot(curves: Curves, path: Path) -> None:
    figure, axes = plt.subplots(1, len(curves), figsize=(3.1 * len(curves), 3.1), layout="constrained", squeeze=False)
    for axis, (problem, of_problem) in zip(axes[0], curves.items(), strict=True):
        for name, runs in of_problem.items():
            values = np.stack(list(runs.values()))  # [seeds, evaluations]
            low, middle, high = np.quantile(values, [0.25, 0.5, 0.75], axis=0)
            steps = np.arange(len(middle))
            axis.plot(steps, middle, color=COLOURS[name], label=name)
            axis.fill_between(steps, low, high, color=COLOURS[name], alpha=0.15, linewidth=0)
        axis.set(title=problem, xlabel="evaluations after the first 20", yscale="log")
        axis.grid(alpha=0.3, which="both", linewidth=0.5)
    axes[0, 0].set_ylabel("regret")
    lines = {line.get_label(): line for axis in axes[0] for line in axis.lines}
    figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=len(lines), frameon=False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
