"""All numbers on a page: what a table was taken for, how good its model is, and what the model has learnt."""

import json
from typing import Any

import numpy as np

from actgp.distil import Classes, LongTailed, Normals
from actgp.estimators import DGPClassifier, DGPRegressor
from actgp.page.columns import most_relevant, relevance, residuals
from actgp.page.effects import effects, pairs
from actgp.page.explorer import controls, starts
from actgp.page.quality import calibration, confusion, probability_below, reliability, widths
from actgp.page.rounding import plain
from actgp.page.rows import least_sure, sample
from actgp.tables import TableFit
from actgp.tabular import Fitting
from actgp.version import __version__

SHOWN = 9  # columns whose effects and residuals are drawn
EXAMPLES = 50  # test rows that the explorer can start from
FORMAT = 1


def numbers(fitting: Fitting) -> str:
    """As JSON."""
    model, estimator = fitting.model, fitting.model.estimator
    names = most_relevant(estimator)
    said = model.predict(fitting.test)
    labels = [str(label) for label in estimator.classes_] if isinstance(estimator, DGPClassifier) else None
    true = fitting.y if labels is None else [labels[int(c)] for c in fitting.y]
    found: dict[str, Any] = {
        "format": FORMAT,
        "version": __version__,
        "target": model.target,
        "task": model.task,
        "why": fitting.target.why,
        "labels": labels,
        "rows": {"train": len(fitting.train), "test": len(fitting.test)},
        "notes": fitting.notes,
        "columns": [
            {
                "name": str(column.name),
                "kind": column.kind,
                "missing": column.missing,
                "numbers": len(column.outputs),
                "note": f"left out: {column.note}" if column.dropped else column.note,
            }
            for column in estimator.columns_
        ],
        "scores": [{"model": score.model, **score.values} for score in fitting.scores],
        "training": _training(fitting),
        "relevance": relevance(estimator, fitting.test, fitting.y, names),
        "effects": effects(estimator, fitting.train, names[:SHOWN]),
        "pairs": pairs(estimator, fitting.train, names),
        "unsure": least_sure(fitting.test, said, fitting.outputs, list(true), names),
        "unlike": float(said["unlike_training"].mean()),
        "explorer": {
            **controls(estimator.columns_, fitting.train, names),
            "examples": starts(estimator.columns_, fitting.test.head(EXAMPLES)),
            "true": list(true)[:EXAMPLES],
        },
        **_quality(fitting, names[:SHOWN]),
    }
    return json.dumps(plain(found), ensure_ascii=False, allow_nan=False)


def _quality(fitting: Fitting, names: list[str]) -> dict[str, Any]:
    """What is shown of the predictions of test rows."""
    outputs, y, estimator = fitting.outputs, fitting.y, fitting.model.estimator
    if isinstance(outputs, Classes):
        return {
            "reliability": reliability(outputs, y),
            "confusion": confusion(outputs.probabilities.numpy(), y),
        }
    assert isinstance(outputs, Normals | LongTailed)
    assert isinstance(estimator, DGPRegressor)
    return {
        "sample": sample(outputs, y),
        "calibration": calibration(probability_below(outputs, y)),
        "widths": widths(outputs, y),
        "residuals": residuals(estimator, fitting.test, outputs, y, names),
        "share": float(np.mean((outputs.epistemic_std / outputs.std).square().numpy())),
    }


def _training(fitting: Fitting) -> dict[str, Any]:
    """What training did."""
    report = fitting.model.estimator.report_
    assert isinstance(report, TableFit)
    members = [
        {"member": name, "weight": weight, "score": report.scores[name]} for name, weight in report.weights.items()
    ]
    return {
        "members": members,
        "mixture": report.scores["mixture"],
        "judged": report.num_judged,
        "stopped": report.stopped,
        "seconds": fitting.seconds,
        "student": {"excess": fitting.model.student.report.divergence, "rows": fitting.model.student.report.rows},
    }
