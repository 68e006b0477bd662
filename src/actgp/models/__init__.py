"""Models of one layer: exact, collapsed, and variational; what they predict, and what they lose."""

from actgp.models.diagnosis import Diagnosis, LayerDiagnosis, diagnose
from actgp.models.gpr import GPR
from actgp.models.prediction import Prediction
from actgp.models.sgpr import SGPR, Posterior
from actgp.models.svgp import SVGP

__all__ = ["GPR", "SGPR", "SVGP", "Diagnosis", "LayerDiagnosis", "Posterior", "Prediction", "diagnose"]
