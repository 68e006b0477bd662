"""A grid of results that can be checked by hand: 3 data sets × 4 models × 5 splits."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

SIZES = {"small": (100, 2), "middle": (200, 3), "large": (1_000, 4)}
NLPDS = {  # on the three data sets; the medians are 0.2 above, the quartiles 0.1 and 0.3
    "ADGP, ours": (-1.0, 0.5, -2.0),
    "network": (0.0, 0.0, -1.0),
    "SVGP": (1.0, 1.0, 0.0),
    "linear": (2.0, 2.0, 0.0),
}
OFFSETS = (0.0, 0.4, 0.1, 0.3, 0.2)
COVERAGES = {"ADGP, ours": 0.94, "network": 0.5, "SVGP": 0.97, "linear": 1.0}
SECONDS = {"ADGP, ours": 40.0, "network": 10.0, "SVGP": 20.0, "linear": 0.1}

Record = dict[str, Any]


def cell(data: str, model: str, split: int) -> Record:
    nlpd = NLPDS[model][list(SIZES).index(data)]
    offset = OFFSETS[split]
    num_rows, num_inputs = SIZES[data]
    return {
        "experiment": "uci",
        "data": data,
        "split": split,
        "model": model,
        "seed": split,
        "metrics": {
            "rmse": 3 + nlpd + offset,
            "nlpd": nlpd + offset,
            "crps": 5 - nlpd + offset,  # the other way round
            "coverage_95": COVERAGES[model],
            "rmse_original": 10 * (3 + nlpd + offset),
            "nlpd_original": nlpd + offset + 2,
        },
        "pit": [0] * 9 + [10, 10] + [0] * 9 if model == "network" else [5] * 20,
        "seconds": {"train": SECONDS[model] * num_rows / 100, "predict": 0.1},
        "rows": {"train": num_rows - num_rows // 10, "test": num_rows // 10},
        "inputs": num_inputs,
        "configuration": {"steps": 10},
        "versions": {"torch": "2.13"},
    }


def records() -> list[Record]:
    return [cell(data, model, split) for data in SIZES for model in NLPDS for split in range(len(OFFSETS))]


def without(model: str, data: str, splits: Sequence[int] = range(5)) -> list[Record]:
    return [r for r in records() if not (r["model"] == model and r["data"] == data and r["split"] in splits)]


def banana_records() -> list[Record]:
    return [
        {
            "experiment": "banana",
            "model": model,
            "layers": layers,
            "seed": seed,
            "metrics": {
                "accuracy": 0.9 + 0.01 * seed,
                "log_likelihood": -0.25,
                "entropy_far": 0.1,
                "probability_far": 0.99,
            },
        }
        for model in ("network", "deep GP")
        for layers in (3, 1)
        for seed in range(3)
    ]


def write(path: Path, lines: Iterable[Record], end: str = "") -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + end, encoding="utf-8")
    return path
