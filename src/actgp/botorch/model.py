"""A deep GP as a model of BoTorch."""

import copy
from collections.abc import Sequence
from typing import Any, cast

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import FantasizeMixin, Model
from botorch.models.transforms.input import InputTransform
from botorch.models.transforms.outcome import OutcomeTransform, Standardize
from botorch.models.utils import validate_input_scaling
from botorch.posteriors import Posterior
from botorch.utils.types import DEFAULT
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel
from gpytorch.likelihoods import Likelihood, LikelihoodList
from gpytorch.mlls import MarginalLogLikelihood
from gpytorch.models import GP
from jaxtyping import Float64
from linear_operator import to_linear_operator
from torch import Tensor, nn

from actgp import checks
from actgp.botorch.evidence import COLD_STEPS, EXACT_STEPS, WARM_STEPS, climb
from actgp.botorch.mixture import Mixture, condition
from actgp.botorch.moments import MomentMatchedDeepGP
from actgp.botorch.outcome import OutcomeGP, outcome_gp
from actgp.botorch.posterior import FunctionsPosterior

TRAINING_PATHS = 8


class DeepGPModel(Model, GP, FantasizeMixin):
    """A deep GP for Bayesian optimisation: an exact GP whose inputs are bent by hidden layers (`outcome`).

    Its posterior is a set of functions, drawn once, so that calls agree with each other; `moment_matched` gives the
    same posterior as a Gaussian. Outcomes are independent deep GPs.

    Args:
        train_X: Inputs, [n, d], in the unit cube after the input transform, in float64.
        train_Y: Outcomes, [n, m].
        train_Yvar: Variances of their noise, [n, m], where these are known.
        covar_module: The kernel of the last layer, one that BoTorch can draw functions with; by default that of
            `SingleTaskGP`.
        outcome_transform: By default `Standardize`; None for none.
        input_transform: One of BoTorch's, such as `Normalize`.
        num_layers: How many layers; 1 is the exact GP of `SingleTaskGP`.
        num_inducing: M, the units of each hidden layer.
        bend: How far hidden layers bend inputs before data are seen: the variance, to begin with and in the median of
            its prior, where inputs are in [−1, 1]. For a function that changes much faster in some places than in
            others, 0.1.
        num_paths: How many paths are drawn through the hidden layers.
        num_functions: How many functions the posterior consists of, a multiple of `num_paths`.
        seed: Of what is drawn.

    Example:
        >>> import torch
        >>> from actgp.botorch import DeepGPModel
        >>> X = torch.rand(20, 2, dtype=torch.float64)
        >>> model = DeepGPModel(X, X.sum(-1, keepdim=True)).fit()
        >>> model.posterior(X[:3]).mean.shape
        torch.Size([3, 1])
    """

    def __init__(
        self,
        train_X: Float64[Tensor, "n d"],
        train_Y: Float64[Tensor, "n m"],
        train_Yvar: Float64[Tensor, "n m"] | None = None,
        covar_module: Kernel | None = None,
        outcome_transform: Any = DEFAULT,
        input_transform: InputTransform | None = None,
        *,  # Ax gives a model only what may be given by position
        num_layers: int = 2,
        num_inducing: int = 32,
        bend: float = 0.004,
        num_paths: int = 16,
        num_functions: int = 512,
        seed: int = 0,
    ) -> None:
        super().__init__()
        num_layers = checks.integer(num_layers, "num_layers", minimum=1)
        num_inducing = checks.integer(num_inducing, "num_inducing", minimum=1)
        bend = checks.positive(bend, "bend")
        self.num_paths = checks.integer(num_paths, "num_paths", minimum=1)
        self.num_functions = checks.integer(num_functions, "num_functions", minimum=1)
        self.seed = checks.integer(seed, "seed", minimum=0)
        if self.num_functions % self.num_paths:
            raise ValueError(
                f"num_functions must be a multiple of num_paths, got {num_functions} and {num_paths}; "
                f"pass e.g. {self.num_paths * max(1, self.num_functions // self.num_paths)}"
            )
        _check_data(train_X, train_Y, train_Yvar)
        with torch.no_grad():
            X = self.transform_inputs(train_X, input_transform)
        if outcome_transform is DEFAULT:
            outcome_transform = Standardize(m=train_Y.shape[-1])
        Y, Yvar = train_Y, train_Yvar
        if outcome_transform is not None:
            outcome_transform.train()
            Y, Yvar = outcome_transform(train_Y, train_Yvar, X=X)
        validate_input_scaling(X, Y, Yvar, check_nans_only=covar_module is not None)
        noises = [None] * Y.shape[-1] if Yvar is None else Yvar.unbind(-1)
        outcomes = [
            outcome_gp(X.shape[-1], num_layers, num_inducing, bend, copy.deepcopy(covar_module), noise, self.seed)
            for noise in noises
        ]
        self.parts = nn.ModuleList(outcomes)
        if outcome_transform is not None:
            self.outcome_transform = outcome_transform.eval()
        if input_transform is not None:
            self.input_transform = input_transform
        self._mixtures: tuple[Mixture, ...] | None = None
        self._warm = self._observed = False
        self.set_train_data(train_X, Y.mT.squeeze(0))
        self.register_load_state_dict_post_hook(_forget)
        self.to(train_X.device)
        self.eval()

    @property
    def outcomes(self) -> list[OutcomeGP]:
        """The deep GP of each outcome."""
        return [cast("OutcomeGP", part) for part in self.parts]

    @property
    def num_outputs(self) -> int:
        return len(self.outcomes)

    @property
    def batch_shape(self) -> torch.Size:
        """That of observations that the model was conditioned on."""
        if not self._observed:
            return torch.Size([])
        found = self.mixtures()[0]
        return torch.broadcast_shapes(found.H.shape[:-3], found.coefficients.shape[:-3])

    @property
    def has_hidden_layers(self) -> bool:
        """Whether it is more than an exact GP."""
        return len(self.outcomes[0].layers) > 0

    @property
    def is_conditioned(self) -> bool:
        """Whether it was conditioned on further observations."""
        return self._observed

    @property
    def likelihood(self) -> Likelihood:
        """The noise; a list of them for several outcomes."""
        likelihoods = [outcome.likelihood for outcome in self.outcomes]
        return likelihoods[0] if len(likelihoods) == 1 else LikelihoodList(*likelihoods)

    def set_train_data(self, inputs: Tensor, targets: Tensor | None = None, strict: bool = True) -> None:
        """Replaces the data; what BoTorch calls to transform inputs once, before predictions.

        Args:
            inputs: [n, d].
            targets: Standardised outcomes, [n] or [m, n].
            strict: Has no meaning here.
        """
        self.train_inputs = (inputs,)
        if targets is not None:
            self.train_targets = targets
            self._mixtures = None

    def train(self, mode: bool = True) -> "DeepGPModel":
        """In training mode, parameters may change: what was computed from them is forgotten."""
        if mode and not self._observed:
            self._mixtures = None
        return super().train(mode)

    def forward(self, X: Float64[Tensor, "n d"]) -> MultivariateNormal:
        """The last layer's prior along a few fixed paths: a batch [S], or [m, S] for several outcomes."""
        if self._observed:
            raise RuntimeError(
                "a model that was conditioned on observations cannot be trained, got one; "
                "build a DeepGPModel of all rows"
            )
        if self.training:
            X = self.transform_inputs(X)
        means, covariances = [], []
        for outcome in self.outcomes:
            generator = torch.Generator().manual_seed(self.seed)
            weights = outcome.weights(TRAINING_PATHS if self.has_hidden_layers else 1, generator)
            H = outcome.bent(X.unsqueeze(0), weights, outcome.whitenings())
            means.append(outcome.mean_module(H))
            covariances.append(outcome.covar_module(H).to_dense())
        if len(means) == 1:
            return MultivariateNormal(means[0], to_linear_operator(covariances[0]))
        return MultivariateNormal(torch.stack(means), to_linear_operator(torch.stack(covariances)))

    def fit(self) -> "DeepGPModel":
        """Trains the model: first its last layer alone, an exact GP, unless there was a warm start; then everything."""
        self.train()
        if not self._warm:
            climb(self._with([outcome.one_layer() for outcome in self.outcomes]).train(), EXACT_STEPS)
        if self.has_hidden_layers:
            climb(self, WARM_STEPS if self._warm else COLD_STEPS)
        return self.eval()

    def warm_start(self, other: "DeepGPModel") -> "DeepGPModel":
        """Takes the parameters of a model of fewer rows, from where `fit` then needs fewer steps."""
        for mine, others in zip(self.outcomes, other.outcomes, strict=True):
            state = {name: value for name, value in others.state_dict().items() if "noise_covar.noise" not in name}
            mine.load_state_dict(state, strict=False)
        self._mixtures, self._warm = None, True
        return self

    def custom_fit(self, mll: MarginalLogLikelihood, **kwargs: Any) -> MarginalLogLikelihood:
        """What BoTorch's `fit_gpytorch_mll` calls. Options of its optimisers are not used."""
        self.fit()
        return mll.eval()

    def mixtures(self) -> tuple[Mixture, ...]:
        """The posterior of each outcome, found once for the parameters as they are."""
        if self._mixtures is None:
            self.eval()
            X, Y = self.train_inputs[0], self.train_targets.reshape(self.num_outputs, -1)
            S = self.num_paths if self.has_hidden_layers else 1  # without hidden layers, all paths are the same
            self._mixtures = tuple(
                condition(outcome, X, y, S, self.num_functions // S, self.seed + i)
                for i, (outcome, y) in enumerate(zip(self.outcomes, Y, strict=True))
            )
        return self._mixtures

    def posterior(
        self,
        X: Float64[Tensor, "*b q d"],
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> Posterior:
        """The drawn functions at X, joint over q points, differentiable in X.

        Args:
            X: [*b, q, d], before the input transform.
            output_indices: The outcomes that are wanted; all by default.
            observation_noise: Whether functions are observed with noise, the same at each call; or its variance,
                broadcast to [*b, q, m], in the scale of the outcome transform.
            posterior_transform: One of BoTorch's.
        """
        self.eval()
        X = self.transform_inputs(X)
        chosen = list(range(self.num_outputs)) if output_indices is None else output_indices
        mixtures = self.mixtures()
        values = torch.stack([mixtures[i].functions(X) for i in chosen], -1)  # [*b, S, q, m]
        if (variance := self.noise_at(values, chosen, observation_noise)) is not None:
            generator = torch.Generator().manual_seed(self.seed)
            noises = torch.randn(values.shape[-3:], dtype=torch.float64, generator=generator)
            values = values + variance.unsqueeze(-3).sqrt() * noises.to(values)
        if (transform := self.outcome_transform_of(output_indices)) is not None:
            values, _ = transform.untransform(values, X=X)
        if posterior_transform is None:
            return FunctionsPosterior(values)
        if posterior_transform.scalarize:  # of each function
            return FunctionsPosterior(posterior_transform.evaluate(values).unsqueeze(-1))
        return posterior_transform(FunctionsPosterior(values))

    def noise_at(self, values: Tensor, chosen: list[int], observation_noise: bool | Tensor) -> Tensor | None:
        """The variance of noise, [*b or 1, q or 1, m], of chosen outcomes; None without it."""
        if isinstance(observation_noise, Tensor):
            return observation_noise[..., chosen] if observation_noise.shape[-1] > len(chosen) else observation_noise
        if not observation_noise:
            return None
        return torch.stack([self.outcomes[i].noise.mean() for i in chosen]).detach().expand(1, len(chosen))

    def outcome_transform_of(self, output_indices: list[int] | None) -> OutcomeTransform | None:
        """The outcome transform of chosen outcomes."""
        transform = getattr(self, "outcome_transform", None)
        if transform is None or output_indices is None:
            return transform
        return transform.subset_output(output_indices)

    def moment_matched(self) -> MomentMatchedDeepGP:
        """The same posterior as a Gaussian, with its mean and covariance."""
        return MomentMatchedDeepGP(self, tuple(mixture.without_functions() for mixture in self.mixtures()))

    def subset_output(self, idcs: list[int]) -> "DeepGPModel":
        """The model of some outcomes, with the same parameters and functions."""
        model = self._with([self.outcomes[i] for i in idcs])
        if (transform := self.outcome_transform_of(idcs)) is not None:
            model.outcome_transform = transform
        model.set_train_data(self.train_inputs[0], self.train_targets.reshape(self.num_outputs, -1)[idcs].squeeze(0))
        mixtures = self.mixtures()
        model._mixtures, model._observed = tuple(mixtures[i] for i in idcs), self._observed
        return model.eval()

    def condition_on_observations(
        self, X: Float64[Tensor, "*b q d"], Y: Float64[Tensor, "*y q m"], noise: Tensor | None = None, **kwargs: Any
    ) -> "DeepGPModel":
        """The posterior after more rows, with the same parameters and paths: exact along each path.

        Args:
            X: [*b, q, d], before the input transform.
            Y: [*y, q, m], before the outcome transform.
            noise: Variances of the noise, as [*b, q, m], in the scale of the outcome transform.
            kwargs: Not used; BoTorch passes options of gpytorch's own models.
        """
        model = self._with(self.outcomes)
        model._mixtures, model._observed = self.observing(self.mixtures(), X, Y, noise), True
        return model.eval()

    def observing(
        self, mixtures: tuple[Mixture, ...], X: Tensor, Y: Tensor, noise: Tensor | None
    ) -> tuple[Mixture, ...]:
        """Posteriors after more rows."""
        X = self.transform_inputs(X)
        if (transform := self.outcome_transform_of(None)) is not None:
            Y, _ = transform(Y, X=X)
        shape = (*X.shape[:-1], self.num_outputs)
        variances = torch.stack([o.noise.mean() for o in self.outcomes]) if noise is None else noise
        generator = torch.Generator().manual_seed(self.seed + X.shape[-2])
        return tuple(
            mixture.observing(X, y, variance, generator)
            for mixture, y, variance in zip(
                mixtures, Y.unbind(-1), variances.detach().expand(shape).unbind(-1), strict=True
            )
        )

    def _with(self, outcomes: Sequence[OutcomeGP]) -> "DeepGPModel":
        """A model of the same data and transforms, with other parts."""
        model = DeepGPModel.__new__(DeepGPModel)
        GP.__init__(model)
        model.num_paths, model.num_functions, model.seed = self.num_paths, self.num_functions, self.seed
        model.parts = nn.ModuleList(outcomes)
        for name in ("outcome_transform", "input_transform"):
            if hasattr(self, name):
                setattr(model, name, getattr(self, name))
        model._mixtures, model._warm, model._observed = None, False, False
        model.train_inputs, model.train_targets = self.train_inputs, self.train_targets
        model._has_transformed_inputs = self._has_transformed_inputs
        model._original_train_inputs = self._original_train_inputs
        model.register_load_state_dict_post_hook(_forget)
        return model


def _forget(model: DeepGPModel, *_: Any) -> None:
    """Parameters have changed."""
    model._mixtures = None


def _check_data(X: Tensor, Y: Tensor, Yvar: Tensor | None) -> None:
    for value, name in ((X, "train_X"), (Y, "train_Y"), (Yvar, "train_Yvar")):
        if value is None:
            continue
        if checks.tensor(value, name).dtype != torch.float64:
            raise TypeError(f"{name} must be float64, got {value.dtype}; convert it with {name}.double()")
        if value.ndim != 2 or len(value) == 0:
            raise ValueError(
                f"{name} must be a matrix of at least one row, got shape {list(value.shape)}; for a single column use "
                f"{name}[:, None], and one model for each element of a batch"
            )
        checks.finite(value, name)
    if len(X) != len(Y) or (Yvar is not None and Yvar.shape != Y.shape):
        got = [list(value.shape) for value in (X, Y, Yvar) if value is not None]
        raise ValueError(f"train_X, train_Y and train_Yvar must have the same rows, got shapes {got}; align them")
