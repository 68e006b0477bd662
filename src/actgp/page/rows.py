"""Single test rows: a sample of them, and those that the model is least sure of, with the reason."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from actgp.distil import Classes, LongTailed, Normals, Outputs
from actgp.page.values import written
from actgp.tabular.scores import LEVEL

Values = NDArray[np.float64]

MOST_POINTS, LEAST_SURE, MOST_COLUMNS = 400, 8, 6
HALF = 0.5
WHY = {
    "unlike": "It is unlike all training rows.",
    "unknown": "The model does not know: it has seen few rows like it.",
    "noise": "Noise: rows like it differ among themselves.",
}


def sample(outputs: Normals | LongTailed, y: Values) -> dict[str, Any]:
    """True and predicted targets of some rows."""
    lower, upper = outputs.interval(LEVEL)
    kept = slice(0, MOST_POINTS)
    said = {"mean": outputs.mean, "lower": lower, "upper": upper}
    return {"true": y[kept], **{name: values[kept].numpy() for name, values in said.items()}, "of": len(y)}


def least_sure(
    frame: pd.DataFrame,
    said: pd.DataFrame,
    outputs: Outputs,
    true: Sequence[Any],
    names: Sequence[str],
) -> list[dict[str, Any]]:
    """Rows with the widest intervals, or the most even probabilities."""
    if isinstance(outputs, Classes):
        p = outputs.probabilities.clamp_min(1e-12)
        unsure = -(p * p.log()).sum(1).numpy()
    else:
        unsure = (said["predicted_upper"] - said["predicted_lower"]).to_numpy()
    found = []
    for i in np.argsort(-unsure, kind="stable")[:LEAST_SURE]:
        row = said.iloc[i]
        why = "unlike" if row["unlike_training"] else "unknown" if row["epistemic_share"] > HALF else "noise"
        values = [[name, written(frame[name].iloc[i])] for name in names[:MOST_COLUMNS]]
        both = {"true": written(true[i]), "share": row["epistemic_share"], "why": WHY[why], "values": values}
        if isinstance(outputs, Classes):
            chosen = {"predicted": str(row["predicted"]), "probability": float(outputs.probabilities[i].max())}
            found.append({**both, **chosen})
        else:
            ends = {name: float(row[f"predicted_{name}"]) for name in ("mean", "lower", "upper")}
            found.append({**both, **ends})
    return found
