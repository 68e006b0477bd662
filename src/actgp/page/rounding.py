"""Numbers for a page: as many digits as it shows, and null where there is no number."""

from typing import Any

import numpy as np

DIGITS = 8


def plain(value: Any) -> Any:
    """Numbers, dates and text of numpy, pandas or Python as what JSON has; arrays become lists."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple | range):
        return [plain(each) for each in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if np.isfinite(value) else None
    return value if value is None or isinstance(value, str | bool | int) else str(value)
