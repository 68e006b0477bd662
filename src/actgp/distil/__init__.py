"""Students: one pass that gives a model's predictive distribution, and files of it that other programs can run."""

from actgp.distil.distill import distill
from actgp.distil.export import Exported, export
from actgp.distil.fidelity import FidelityReport, FidelityWarning
from actgp.distil.javascript import javascript
from actgp.distil.outputs import Classes, Normals
from actgp.distil.scaling import Scaling
from actgp.distil.student import SavedStudent, Student
from actgp.distil.teacher import Inside, inside

__all__ = [
    "Classes",
    "Exported",
    "FidelityReport",
    "FidelityWarning",
    "Inside",
    "Normals",
    "SavedStudent",
    "Scaling",
    "Student",
    "distill",
    "export",
    "inside",
    "javascript",
]
