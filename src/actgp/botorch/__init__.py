"""Deep GPs as models of BoTorch.

Importing this module registers three things with BoTorch: the sampler of `FunctionsPosterior`, which takes its
functions one after the other; paths of `DeepGPModel` for pathwise Thompson sampling; and features of zonal kernels,
with which models of BoTorch's own draw functions.
"""

import importlib

try:
    importlib.import_module("botorch.models")
except ModuleNotFoundError as error:
    raise ImportError(f"actgp.botorch needs BoTorch, got {error}; pip install 'actgp[botorch]'") from error

from actgp.botorch.evidence import DeepEvidence
from actgp.botorch.feature_maps import ZonalFeatureMap
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
    "ZonalFeatureMap",
]
