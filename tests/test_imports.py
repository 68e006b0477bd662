"""What `import actgp` does not import before it is used: scikit-learn and all that comes with it, parts of SciPy."""

import subprocess
import sys
from typing import get_type_hints

import pytest

import actgp
from actgp.estimators import DGPClassifier, DGPRegressor

LATER = ("sklearn", "scipy.special", "scipy.stats", "scipy.optimize", "rich", "pandas", "joblib", "matplotlib", "typer")
SCRIPT = f"""
import sys
import actgp
print(*(name for name in {LATER} if name in sys.modules))
actgp.deep_gp(2)
print(*(name for name in {LATER} if name in sys.modules))
from actgp import DGPRegressor
print("sklearn" in sys.modules, DGPRegressor is actgp.DGPRegressor)
"""


def test_scikit_learn_is_imported_when_an_estimator_is_used() -> None:
    result = subprocess.run([sys.executable, "-c", SCRIPT], check=True, capture_output=True, text=True)
    assert result.stdout.splitlines() == ["", "", "True True"]


def test_the_estimators_are_names_of_actgp_like_others() -> None:
    assert actgp.DGPRegressor is DGPRegressor
    assert actgp.DGPClassifier is DGPClassifier
    assert set(actgp.__all__) <= set(dir(actgp))
    namespace: dict[str, object] = {}
    exec("from actgp import *", namespace)
    assert set(actgp.__all__) <= namespace.keys()
    with pytest.raises(AttributeError, match="module 'actgp' has no attribute 'DGPTransformer'"):
        actgp.DGPTransformer  # noqa: B018
    assert get_type_hints(DGPRegressor.__init__)["layers"] == actgp.Layers | None
