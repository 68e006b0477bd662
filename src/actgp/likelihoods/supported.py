"""Which likelihoods fit a model of independent latent functions."""

from gpytorch.likelihoods import GaussianLikelihood, Likelihood, SoftmaxLikelihood
from gpytorch.likelihoods.gaussian_likelihood import _GaussianLikelihoodBase

from actgp.likelihoods.contaminated import ContaminatedGaussianLikelihood
from actgp.likelihoods.ordinal import conditional_at_zero


def supported(likelihood: Likelihood, num_outputs: int | None = None, input_dim: int | None = None) -> Likelihood:
    """Returns a likelihood of one latent function for each output, or of classes, with as many features as outputs.

    Noise that depends on the inputs of the last layer must have as many slopes as there are (`input_dim`).
    """
    if not isinstance(likelihood, Likelihood):
        raise TypeError(
            f"likelihood must be a gpytorch likelihood, got {type(likelihood).__name__}; "
            "pass e.g. gpytorch.likelihoods.GaussianLikelihood()"
        )
    if isinstance(likelihood, _GaussianLikelihoodBase) and not isinstance(likelihood, GaussianLikelihood):
        raise TypeError(
            "Gaussian noise must be the same for all rows, or vary by slopes that are learnt, got "
            f"{type(likelihood).__name__}; use gpytorch.likelihoods.GaussianLikelihood, or "
            "actgp.ContaminatedGaussianLikelihood(input_dim=…)"
        )
    if isinstance(likelihood, GaussianLikelihood) and likelihood.noise.numel() != 1:
        raise ValueError(
            f"Gaussian noise must be one number, got {likelihood.noise.numel()}; leave out batch_shape, "
            "and use one model for each output that has noise of its own"
        )
    if isinstance(likelihood, GaussianLikelihood) and not likelihood.noise.item() > 0:
        raise ValueError(
            f"Gaussian noise must be above zero, got {likelihood.noise.item():.3g}; give noise_constraint a lower "
            "bound of at least zero, e.g. gpytorch.constraints.Interval(1e-6, 0.1)"
        )
    if isinstance(likelihood, SoftmaxLikelihood) and num_outputs not in (None, likelihood.num_features):
        raise ValueError(
            f"num_outputs must be the softmax likelihood's number of features {likelihood.num_features}, got "
            f"{num_outputs}; make them agree"
        )
    slopes = likelihood.slopes if isinstance(likelihood, ContaminatedGaussianLikelihood) else None
    if slopes is not None and input_dim not in (None, len(slopes)):
        raise ValueError(
            f"input_dim of the likelihood must be that of the last layer, {input_dim}, got {len(slopes)}; make them "
            "agree, or leave it out, for noise that is the same everywhere"
        )
    if num_outputs is not None and not isinstance(likelihood, GaussianLikelihood | SoftmaxLikelihood):
        _check_shapes(likelihood, num_outputs)
    return likelihood


def _check_shapes(likelihood: Likelihood, P: int) -> None:
    """Refuses a likelihood that does not give one y for each latent function, such as one with a batch shape."""
    for N in (2, 3):  # a batch shape may fit one of them by chance
        try:
            got = str(list(conditional_at_zero(likelihood, N, P).batch_shape))
        except Exception as error:
            got = f"{type(error).__name__}: {error}"
        if got != str([N, P]):
            raise ValueError(
                f"{type(likelihood).__name__} must give a distribution of shape {[N, P]} for latent functions of shape "
                f"{[N, P]}, one y for each, got {got}; leave out batch_shape, use a SoftmaxLikelihood for classes, or "
                "build one model for each likelihood"
            )


def gaussian(likelihood: GaussianLikelihood | None) -> GaussianLikelihood:
    """Returns a Gaussian likelihood, the only one with a closed form; a new one for None."""
    if likelihood is None:
        return GaussianLikelihood()
    if not isinstance(likelihood, GaussianLikelihood) or isinstance(likelihood, ContaminatedGaussianLikelihood):
        raise TypeError(
            f"likelihood must be a gpytorch GaussianLikelihood, got {type(likelihood).__name__}; "
            "use SVGP, which takes other likelihoods"
        )
    supported(likelihood)
    return likelihood
