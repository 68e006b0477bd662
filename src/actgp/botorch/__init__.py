"""Deep GPs as models of BoTorch.

Importing this module registers two things with BoTorch: the sampler of `FunctionsPosterior`, which takes its functions
one after the other, and paths of `DeepGPModel` for pathwise Thompson sampling.
"""

import importlib.util

if importlib.util.find_spec("botorch") is None:
    raise ImportError("actgp.botorch needs BoTorch, which is not installed; pip install 'actgp[botorch]'")

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
