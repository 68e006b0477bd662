"""Students: one pass that gives a model's predictive distribution, and files of it that other programs can run."""

from actgp.distil.distill import distill
from actgp.distil.export import Exported, export
from actgp.distil.fidelity import FidelityReport, FidelityWarning
from actgp.distil.javascript import javascript
from actgp.distil.long_tail import LongTail, lengthened, log_slope, shortened
from actgp.distil.outputs import Classes, LongTailed, Normals, Outputs, joined, normal_cdf
from actgp.distil.scaling import Scaling
from actgp.distil.student import SavedStudent, Student
from actgp.distil.teacher import Inside, distribution, inside

__all__ = [
    "Classes",
    "Exported",
    "FidelityReport",
    "FidelityWarning",
    "Inside",
    "LongTail",
    "LongTailed",
    "Normals",
    "Outputs",
    "SavedStudent",
    "Scaling",
    "Student",
    "distill",
    "distribution",
    "export",
    "inside",
    "javascript",
    "joined",
    "lengthened",
    "log_slope",
    "normal_cdf",
    "shortened",
]
