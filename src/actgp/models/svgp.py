"""Sparse variational GP: a deep GP of one layer, trained on minibatches (Hensman et al., 2013)."""

from typing import Any, ClassVar

from gpytorch.kernels import Kernel
from gpytorch.likelihoods import Likelihood

from actgp import checks
from actgp.features import InducingFeatures
from actgp.layers import GPLayer
from actgp.likelihoods import adapter_of, supported
from actgp.models.deep import DeepGP
from actgp.persistence import Sizes, savable


@savable
class SVGP(DeepGP):
    """f ~ GP(0, k) for each output, y | f by a likelihood, q(u) whitened.

    Args:
        kernel: The prior's kernel.
        features: The inducing features.
        likelihood: A gpytorch likelihood of one latent function for each output, or `SoftmaxLikelihood`.
        num_outputs: P, the number of latent functions; for a softmax likelihood its number of features.

    Example:
        >>> import actgp, gpytorch
        >>> kernel = actgp.ArcCosine(input_dim=2)
        >>> features = actgp.ActivatedFeatures(input_dim=2, num_inducing=50, activation="softplus")
        >>> model = actgp.SVGP(kernel, features, gpytorch.likelihoods.BernoulliLikelihood())
    """

    SIZES: ClassVar[Sizes] = {f"layers.0.{name}": axes for name, axes in GPLayer.SIZES.items()}

    def __init__(
        self, kernel: Kernel, features: InducingFeatures, likelihood: Likelihood, num_outputs: int | None = None
    ) -> None:
        supported(likelihood)
        latent = adapter_of(likelihood).num_latent
        P = (latent or 1) if num_outputs is None else checks.integer(num_outputs, "num_outputs", minimum=1)
        if latent not in (None, P):
            raise ValueError(
                f"num_outputs must be the softmax likelihood's number of features {latent}, got {P}; leave it out"
            )
        super().__init__([GPLayer(kernel, features, P)], likelihood)

    def config(self) -> dict[str, Any]:
        parts = {"layers.0.kernel": self.layer.kernel, "layers.0.features": self.layer.features}
        return parts | {"likelihood": self.likelihood}

    @property
    def layer(self) -> GPLayer:
        """The one layer."""
        return self.gp_layers[0]
