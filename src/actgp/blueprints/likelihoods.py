"""Likelihoods, described and built."""

from typing import Any

import gpytorch.likelihoods as gpl
from gpytorch.likelihoods import Likelihood, NegativeBinomialLikelihood, SoftmaxLikelihood

from actgp.blueprints.constraints import build_constraints, describe_constraints
from actgp.blueprints.source import Source, refuse_to_save
from actgp.likelihoods import ContaminatedGaussianLikelihood

PLAIN: dict[str, type[Likelihood]] = {
    "GaussianLikelihood": gpl.GaussianLikelihood,
    "StudentTLikelihood": gpl.StudentTLikelihood,
    "LaplaceLikelihood": gpl.LaplaceLikelihood,
    "BernoulliLikelihood": gpl.BernoulliLikelihood,
    "BetaLikelihood": gpl.BetaLikelihood,
    "PoissonLikelihood": gpl.PoissonLikelihood,
}
ALL: dict[str, type[Likelihood]] = {
    **PLAIN,
    "ContaminatedGaussianLikelihood": ContaminatedGaussianLikelihood,
    "NegativeBinomialLikelihood": NegativeBinomialLikelihood,
    "SoftmaxLikelihood": SoftmaxLikelihood,
}
LARGEST_CLASSES = 1_000_000


def describe_likelihood(likelihood: Likelihood, place: str) -> dict[str, Any]:
    """Class and options of a likelihood; its parameters are tensors."""
    if type(likelihood) not in ALL.values():
        refuse_to_save("a likelihood", sorted(ALL), likelihood, place)
    state = likelihood.state_dict().items()
    sizes = {name: list(tensor.shape) for name, tensor in state if name.rpartition(".")[-1].startswith("raw_")}
    if any(size != [1] for size in sizes.values()):
        raise ValueError(
            f"to be saved, a likelihood must have one number for each parameter, got shapes {sizes} at {place}; "
            "leave out batch_shape"
        )
    entries = {"class": type(likelihood).__name__, "constraints": describe_constraints(likelihood, place)}
    if isinstance(likelihood, ContaminatedGaussianLikelihood):
        return entries | {"share": likelihood.share, "slopes": likelihood.slopes is not None}
    if isinstance(likelihood, NegativeBinomialLikelihood):
        return entries | {"num_failures_param": bool(likelihood.num_failures_param)}
    if isinstance(likelihood, SoftmaxLikelihood):
        mixing = likelihood.mixing_weights is not None
        return entries | {"num_classes": int(likelihood.num_classes), "mixing_weights": mixing}
    return entries


def build_likelihood(source: Source) -> Likelihood:
    """The likelihood of a description, its parameters yet to be set."""
    chosen = source.choose("class", ALL)
    if chosen is SoftmaxLikelihood:
        likelihood: Likelihood = _softmax(source)
    elif chosen is NegativeBinomialLikelihood:
        likelihood = NegativeBinomialLikelihood(num_failures_param=source.get("num_failures_param", bool))
    elif chosen is ContaminatedGaussianLikelihood:
        likelihood = _contaminated(source)
    else:
        likelihood = chosen()
    build_constraints(likelihood, source)
    return likelihood


def _contaminated(source: Source) -> ContaminatedGaussianLikelihood:
    share = source.get("share", float)
    if not 0.0 < share < 1.0:
        source.refuse("a share between 0 and 1", f"{share:.3g}")
    inputs = len(source.tensor("slopes", None)) if source.get("slopes", bool) else None
    return ContaminatedGaussianLikelihood(share=share, input_dim=inputs)


def _softmax(source: Source) -> SoftmaxLikelihood:
    classes = source.get("num_classes", int)
    if not 1 <= classes <= LARGEST_CLASSES:
        source.refuse(f"num_classes from 1 to {LARGEST_CLASSES}", str(classes)[:80])
    if not source.get("mixing_weights", bool):
        return SoftmaxLikelihood(num_classes=classes, mixing_weights=False)
    features = source.tensor("mixing_weights", classes, None).shape[1]
    return SoftmaxLikelihood(num_features=features, num_classes=classes)
