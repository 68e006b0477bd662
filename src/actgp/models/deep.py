"""The deep Gaussian process: GP layers one after the other (paper, section 3.1; Salimbeni and Deisenroth, 2017).

    h_0 = x (or the backbone's output),   h_ℓ ~ q(f_ℓ(h_{ℓ−1})),   y ~ p(y | h_L)

    ELBO = Σ_i E[log p(y_i | h_iL)] − Σ_ℓ KL(q(u_ℓ) ‖ p(u_ℓ))                       (eq. 3)

Hidden layers are sampled, reparametrised; over the last one the likelihood averages, in closed form where it can.
"""

import copy
import os
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import torch
from gpytorch.likelihoods import Likelihood
from jaxtyping import Float
from torch import Tensor, nn

from actgp import checks
from actgp.autocast import autocasting, full_precision
from actgp.layers import (
    Constants,
    GPLayer,
    NetworkLayer,
    SampledFunction,
    constants_and_kl,
    draw_functions,
    mean_functions,
)
from actgp.likelihoods import Latent, adapter_of, supported, targets
from actgp.models.prediction import Prediction
from actgp.persistence import savable, save
from actgp.sampling import normal_points
from actgp.several import GivenRows, Inputs, gathered, parts_of_inputs

CHUNK = 2**21  # numbers that a layer makes of a chunk of a prediction, for each thread
SEED = 0


@savable
class DeepGP(nn.Module):
    """Layers of GPs, read through their means a network.

    Args:
        layers: The GP layers; each has as many inputs as the one before has outputs.
        likelihood: A gpytorch likelihood of one latent function for each output, or `SoftmaxLikelihood`.
        backbone: A module that the inputs go through first, such as the convolutions of a network.
        keep_column: Whether `mean` and `network` give [N, 1] for one output, as a converted network may do, not [N].

    Example:
        >>> import actgp, gpytorch, torch
        >>> features = [actgp.ActivatedFeatures(input_dim=2, num_inducing=10) for _ in range(2)]
        >>> hidden = actgp.GPLayer(actgp.ArcCosine(2), features[0], num_outputs=2, prior_mean="identity")
        >>> last = actgp.GPLayer(actgp.ArcCosine(2), features[1])
        >>> model = actgp.DeepGP([hidden, last], gpytorch.likelihoods.GaussianLikelihood())
        >>> X = torch.randn(7, 2)
        >>> torch.allclose(model.network()(X), model.mean(X))
        True
    """

    def __init__(
        self,
        layers: Sequence[GPLayer],
        likelihood: Likelihood,
        backbone: nn.Module | None = None,
        *,
        keep_column: bool = False,
    ) -> None:
        super().__init__()
        if not layers or not all(isinstance(layer, GPLayer) for layer in layers):
            names = [type(layer).__name__ for layer in layers]
            raise TypeError(f"layers must be one or more GPLayers, got {names}; build them with actgp.GPLayer")
        for i, (before, after) in enumerate(pairwise(layers), start=1):
            if before.num_outputs != after.input_dim:
                raise ValueError(
                    f"layer {i + 1} must have as many inputs as layer {i} has outputs, got {after.input_dim} and "
                    f"{before.num_outputs}; rebuild one of them"
                )
        self.layers = nn.ModuleList(layers)
        self.likelihood = supported(likelihood, self.num_outputs, self.gp_layers[-1].input_dim)
        self.backbone, self.keep_column = backbone, keep_column

    @property
    def num_outputs(self) -> int:
        """P, of the last layer."""
        return self.gp_layers[-1].num_outputs

    @property
    def input_dim(self) -> int:
        """D, of the first layer: behind a backbone, if there is one."""
        return self.gp_layers[0].input_dim

    @property
    def gp_layers(self) -> list[GPLayer]:
        """The layers, in order."""
        return list(self.layers)  # type: ignore[arg-type]

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the layers."""
        return self.gp_layers[0].q.raw_mean.dtype

    def forward(self, X: GivenRows) -> Tensor:
        """As `mean`: called as a module, a model is its network. Hooks and DDP go around it; compile `network()`."""
        return self.mean(X)

    def mean(self, X: GivenRows) -> Tensor:
        """The composed means: the network's forward pass. [N] for one output, [N, P] for several."""
        *_, output = self._composed(self.gp_layers, self.enter(X))
        return output if self.keep_column else checks.squeezed(output)

    def hidden_means(self, X: GivenRows) -> list[Tensor]:
        """What each layer is given when the means of the layers before it are composed: X itself for the first."""
        return self._composed(self.gp_layers[:-1], self.enter(X))

    @torch.no_grad()
    def unexplained(self, X: GivenRows) -> Float[Tensor, " N"]:
        """How unlike the data an input is: the fraction of the last layer's prior variance that no q(u) can explain.

        It is between 0, where inducing variables tell all of the function, and 1, where they tell nothing, by the
        means of the layers before. Uncertainty of class probabilities has the same largest value for what is foreign
        and for what lies between two classes; this tells which of them it is.
        """
        *_, last = self.gp_layers
        parts = self.hidden_means(X)[-1].split(max(1, CHUNK // last.features.num_inducing))
        return torch.cat([last.unexplained(h) for h in parts])

    def network(self) -> nn.Sequential:
        """The same function as a plain module of its own: nothing in it knows of Gaussian processes."""
        layers = [NetworkLayer(layer) for layer in self.gp_layers]
        last = [nn.Flatten(0)] if self.num_outputs == 1 and not self.keep_column else []
        backbone = [] if self.backbone is None else [copy.deepcopy(self.backbone)]
        return nn.Sequential(*backbone, *layers, *last)

    def elbo(
        self,
        X: GivenRows,
        y: Tensor,
        num_data: int,
        num_samples: int = 1,
        *,
        generator: torch.Generator | None = None,
    ) -> Float[Tensor, ""]:
        """The evidence lower bound for the whole data set of `num_data` rows, unbiased, from a minibatch of it.

        Args:
            X: A minibatch of inputs.
            y: Its targets: [B], or [B, P].
            num_data: N, the rows of the whole data set.
            num_samples: S, how many paths are sampled through the hidden layers.
            generator: Source of randomness.
        """
        h = self.enter(X)
        num_data = checks.integer(num_data, "num_data", minimum=len(h))
        y = targets(self.likelihood, y, len(h), self.num_outputs, h.dtype)
        constants, kl = self.constants_and_kl()
        paths = self.along(h, constants, self.noises(h, num_samples, generator=generator))  # [S, B, P]
        fit = adapter_of(self.likelihood).expected_log_prob(y, paths, generator).mean(0)  # [B]
        return num_data / len(h) * fit.sum() - kl

    @full_precision
    def constants_and_kl(self) -> tuple[list[Constants], Float[Tensor, ""]]:
        """What does not depend on x, of each layer, and Σ_ℓ KL(q(u_ℓ) ‖ p(u_ℓ)): found once for all inputs."""
        return constants_and_kl(self.gp_layers)

    def paths(self, X: GivenRows, num_samples: int = 1, *, generator: torch.Generator | None = None) -> Latent:
        """Means and variances of the last layer along paths sampled through the hidden ones; differentiable.

        Args:
            X: Inputs.
            num_samples: S; a model of one layer needs, and takes, only one.
            generator: Source of randomness.
        """
        h = self.enter(X)
        return self.along(h, self.constants_and_kl()[0], self.noises(h, num_samples, generator=generator))

    def noises(
        self, h: Float[Tensor, "N D"], num_samples: int, *, generator: torch.Generator | None = None
    ) -> list[Float[Tensor, "S N H"]]:
        """What paths of N inputs are sampled with: ε ~ N(0, 1) for each hidden layer."""
        S = self._num_paths(checks.integer(num_samples, "num_samples", minimum=1))
        return [
            torch.randn(S, len(h), layer.num_outputs, dtype=h.dtype, device=h.device, generator=generator)
            for layer in self.gp_layers[:-1]
        ]

    def kl(self) -> Float[Tensor, ""]:
        """Σ_ℓ KL(q(u_ℓ) ‖ p(u_ℓ))."""
        return torch.stack([layer.kl() for layer in self.gp_layers]).sum()

    @torch.no_grad()
    def predict(self, X: GivenRows, num_samples: int = 20, *, generator: torch.Generator | None = None) -> Prediction:
        """The predictive distribution at each input: a mixture over sampled paths.

        A path has the same noise ε at all inputs, h(x) = mean(x) + sd(x) ε, which leaves its distribution at each of
        them as it is: predictions are smooth in x, and none depends on the inputs beside it. The ε are quasi-random.

        Args:
            X: Inputs. They are taken in chunks, so that memory does not grow with their number.
            num_samples: S, the number of paths; a model of one layer needs, and takes, only one.
            generator: Source of randomness; by default the same for every call.
        """
        X = self.check_inputs(X)
        num_samples = checks.integer(num_samples, "num_samples", minimum=1)
        seed = (
            SEED if generator is None else int(torch.randint(2**31, (), generator=generator, device=generator.device))
        )
        constants, _ = self.constants_and_kl()
        S, widths = self._num_paths(num_samples), [layer.num_outputs for layer in self.gp_layers[:-1]]
        points = normal_points(S, sum(widths), seed).to(constants[-1].mean)
        noises = [noise.unsqueeze(1) for noise in points.split(widths, dim=1)]
        widest = max(constant.mean.numel() for constant in constants)
        rows = max(1, CHUNK * torch.get_num_threads() // (S * widest))
        # Results have their place from the beginning: small ones that stay would keep large ones from being freed.
        varies = adapter_of(self.likelihood).noise_parameters().slopes is not None
        sizes = [self.num_outputs, self.num_outputs, *[1] * varies]
        places = [constants[-1].mean.new_empty(S, len(X), size) for size in sizes]
        for part, *results in zip(X.split(rows), *(place.split(rows, dim=1) for place in places), strict=True):
            paths = self.along(self.enter(part), constants, noises)
            for result, values in zip(results, paths, strict=False):  # noise has no values where it does not vary
                result.copy_(values)
        mean, variance, *relative = places
        return Prediction(checks.predicted(mean, X), variance, self.likelihood, *relative)

    def sample_functions(
        self, num_functions: int, *, num_features: int = 1_000, generator: torch.Generator | None = None
    ) -> list[SampledFunction]:
        """Draws functions from the posterior: each gives the same values whenever it is called, with gradients.

        Args:
            num_functions: How many.
            num_features: F, the random features that stand for what the inducing variables leave unexplained.
            generator: Source of randomness.
        """
        num_functions = checks.integer(num_functions, "num_functions", minimum=1)
        num_features = checks.integer(num_features, "num_features", minimum=1)
        drawn = [draw_functions(layer, num_functions, num_features, generator) for layer in self.gp_layers]
        front = self
        if self.backbone is not None:  # functions stay what they are when the model is trained on
            front = DeepGP(self.gp_layers, self.likelihood, copy.deepcopy(self.backbone).eval())
        return [SampledFunction(front.enter, functions) for functions in zip(*drawn, strict=True)]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model to a file, all of it at once; `actgp.load` reads it. A backbone's code stays outside."""
        save(self, path)

    def config(self) -> dict[str, Any]:
        """The arguments of its constructor, for files (`persistence`)."""
        parts = {"layers": self.gp_layers, "likelihood": self.likelihood, "backbone": self.backbone}
        return {**parts, "keep_column": self.keep_column}

    def rows(self, X: GivenRows) -> Tensor | Inputs:
        """Several inputs, which a network in front may have, as one thing that has rows; a tensor as it is."""
        return X if self.backbone is None else gathered(X)  # type: ignore[return-value]  # layers refuse what is none

    def check_inputs(self, X: GivenRows) -> Tensor | Inputs:
        """Returns X if it is finite, in the model's precision and, without a backbone, as wide as the first layer.

        A backbone may take whole numbers, such as tokens or pixels, and several inputs, a tuple or dictionary of them.
        """
        parameters = [layer.q.raw_mean for layer in self.gp_layers]
        if self.backbone is None:
            return checks.precision(checks.inputs(X, self.gp_layers[0].input_dim), parameters)  # type: ignore[arg-type]
        several = self.rows(X)
        for values in parts_of_inputs(several):
            if not (isinstance(values, Tensor) and not values.is_floating_point() and not values.is_complex()):
                checks.finite(checks.tensor(values, "X"), "X")
                checks.precision(values, parameters)
        if isinstance(several, Tensor) and (several.ndim < 2 or len(several) == 0):
            raise ValueError(f"X must have shape [N, …] with at least one row, got {list(several.shape)}; pass a batch")
        return several

    def enter(self, X: GivenRows) -> Float[Tensor, "N D"]:
        """Checks the inputs, and takes them through the backbone."""
        checked = self.check_inputs(X)
        if self.backbone is None:
            return checked  # type: ignore[return-value]
        h = self.backbone(checked.given if isinstance(checked, Inputs) else checked)
        if autocasting() and isinstance(h, Tensor):  # which the backbone is free to follow
            h = h.to(self.dtype)
        return checks.inputs(h, self.gp_layers[0].input_dim, "the backbone's output")

    @staticmethod
    @full_precision
    def _composed(layers: Sequence[GPLayer], h: Float[Tensor, "N D"]) -> list[Tensor]:
        return list(accumulate(mean_functions(layers), lambda h, mean: mean(h), initial=h))

    def _num_paths(self, num_samples: int) -> int:
        return num_samples if len(self.gp_layers) > 1 else 1

    @full_precision
    def along(self, h: Float[Tensor, "N D"], constants: list[Constants], noises: Sequence[Tensor]) -> Latent:
        """Composes the layers along paths h = mean + sd ε, with noises ε [S, N or 1, H] for each hidden layer."""
        first, *others = zip(self.gp_layers, constants, strict=True)
        N = len(h)
        mean, variance = first[0].marginals(h, first[1])  # [N, P]: all paths begin alike
        for (layer, constant), noise in zip(others, noises, strict=True):
            h = sampled(mean.view(-1, N, layer.input_dim), variance.view(-1, N, layer.input_dim), noise).flatten(0, 1)
            mean, variance = layer.marginals(h, constant)
        relative = adapter_of(self.likelihood).relative_noise(h.view(-1, N, h.shape[1]))
        shape = (-1, N, self.num_outputs)
        return Latent(mean.view(shape), variance.view(shape), relative)


def sampled(
    mean: Float[Tensor, "_ N H"], variance: Float[Tensor, "_ N H"], noise: Float[Tensor, "S _ H"]
) -> Float[Tensor, "S N H"]:
    """h = mean + sd ε along S paths; the variance is kept away from zero, where its root has no gradient."""
    return torch.addcmul(mean, variance.clamp_min(torch.finfo(variance.dtype).eps).sqrt(), noise)
