"""Deep GPs as models of BoTorch.

Importing this module registers two things with BoTorch: the sampler of `FunctionsPosterior`, which takes its functions
one after the other, and paths of `DeepGPModel` for pathwise Thompson sampling.
"""

import importlib

try:
    importlib.import_module("botorch.models")
except ModuleNotFoundError as error:
    raise ImportError(f"actgp.botorch needs BoTorch, got {error}; pip install 'actgp[botorch]'") from error

from actgp.botorch.evidence import DeepEvidence
from actgp.botorch.model import DeepGPModel
from actgp.botorch.moments import MomentMatchedDeepGP
from actgp.botorch.posterior import FunctionsPosterior, FunctionsSampler
from actgp.botorch.thompson import DeepGPPaths

__all__ = [
    "DeepEvidence",
    "DeepGPModel",
    "DeepGPPaths",
    "FunctionsPosterior",
    "FunctionsSampler",
    "MomentMatchedDeepGP",
]
