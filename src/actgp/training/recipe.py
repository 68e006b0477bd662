"""How a model is trained, and what came of it."""

from dataclasses import dataclass
from typing import Literal

from torch import nn

from actgp import checks
from actgp.likelihoods import adapter_of
from actgp.models import DeepGP
from actgp.persistence import savable

ObjectiveName = Literal["elbo", "predictive"]
PREDICTIVE_WEIGHT = 0.3  # of the KL, in the predictive objective
CONVERTED_STEPS = 1_000  # of a converted network that has no closed form
MOST_OVERFITTED = 4.0  # how many times as large as on X errors on other rows may be, before something is said
ErrorSource = Literal["held-out rows", "leave-one-out", "none"]
Stopped = Literal["converged", "steps", "stalled", "callback"]


@savable
@dataclass(frozen=True)
class Recipe:
    """The stages of training. The defaults serve all data sets alike.

    Attributes:
        network_steps: Steps of stage 1, in which the composed means are trained as a network; 0 leaves it out.
        num_steps: Steps of stage 2, in which the posterior is trained; 0 leaves it out.
        objective: Of stage 2: "elbo", the evidence lower bound; or "predictive", the log density of the mixture over
            sampled paths that predictions are made of, which is no bound, but the score that predictions are judged by.
        kl_weight: The weight of KL(q ‖ p) in it. Below one, the data count for more than they are. None is 1; or, for
            the predictive objective, 0.3, if there are held-out rows to say when to stop.
        validation: The part of the rows that is held out of each stage, if data are tensors of at least 200 rows:
            stages end with the parameters that predicted them best. At most 1,000 rows for each. 0 holds out none.
        calibrate: Whether predictions are calibrated at the end of stage 2: its held-out rows choose how wide they are.
        use_all_rows: Whether there is a stage 3, in which rows that `fit` has held out itself are trained on, too:
            `num_steps` // 8 steps at lower rates.
        num_samples: S, the paths sampled through the hidden layers in each step.
        network_rate: Adam's learning rate in stage 1.
        learning_rate: Adam's in stage 2, for everything but q(u).
        natural_rate: Of the natural gradient steps on q(u) in stage 2.
        batch_size: Rows in a minibatch, where data are given as tensors.
        patience: Steps without progress after which all rates are cut, up to three times; then the stage ends.

    Example:
        >>> import actgp
        >>> recipe = actgp.Recipe(network_steps=500, num_steps=200, objective="elbo")
        >>> recipe.kl_weight is None  # then 1, as it should be for a bound
        True
    """

    network_steps: int = 5_000
    num_steps: int = 4_000
    objective: ObjectiveName = "predictive"
    kl_weight: float | None = None
    validation: float = 0.1
    calibrate: bool = True
    use_all_rows: bool = True
    num_samples: int = 4
    network_rate: float = 0.01
    learning_rate: float = 0.01
    natural_rate: float = 0.1
    batch_size: int = 128
    patience: int = 1_000

    def __post_init__(self) -> None:
        counts = {"network_steps": 0, "num_steps": 0, "num_samples": 1, "batch_size": 1, "patience": 1}
        for name, minimum in counts.items():
            self._keep(name, checks.integer(getattr(self, name), name, minimum=minimum))
        checks.choice(self.objective, "objective", ("elbo", "predictive"))
        for name in ("network_rate", "learning_rate", "natural_rate", "kl_weight"):
            if (value := getattr(self, name)) is not None:
                self._keep(name, checks.positive(value, name))
        self._keep("validation", checks.real(self.validation, "validation", example=0.1))
        if not 0.0 <= self.validation < 0.5:  # each stage has its own part
            raise ValueError(f"validation must be at least 0 and less than 0.5, got {self.validation}; pass e.g. 0.1")
        for name in ("calibrate", "use_all_rows"):
            if not isinstance(value := getattr(self, name), bool):
                raise TypeError(f"{name} must be True or False, got {value!r}; pass one of them")
        if self.natural_rate > 1:
            raise ValueError(f"natural_rate must be at most 1, got {self.natural_rate}; pass e.g. 0.1")

    def _keep(self, name: str, value: float) -> None:
        """As plain numbers, which files can hold."""
        object.__setattr__(self, name, value)

    @staticmethod
    def suited_to(model: DeepGP) -> "Recipe":
        """The default: the ELBO for one layer, where it is tight; the predictive objective for several.

        A converted network, which is carried as the prior mean, is trained already: no stage 1. With Gaussian noise,
        and for labels, what is left has a closed form, and no steps are taken; else few.
        """
        if has_closed_form(model):
            return Recipe(network_steps=0, num_steps=0, objective="elbo", num_samples=1)
        if any(layer.prior_mean == "carried" for layer in model.gp_layers):
            return Recipe(network_steps=0, num_steps=CONVERTED_STEPS, objective="elbo", num_samples=1)
        if len(model.gp_layers) == 1:
            return Recipe(objective="elbo", num_samples=1)
        return Recipe()

    def weight(self, *, judged: bool) -> float:
        """The weight of the KL, with or without held-out rows to judge by."""
        if self.kl_weight is not None:
            return self.kl_weight
        return PREDICTIVE_WEIGHT if self.objective == "predictive" and judged else 1.0


def has_trained_mean(model: DeepGP) -> bool:
    """Whether the layers stand around a network that stays as it is: there is no network to train."""
    trained = [] if model.backbone is None else [p for p in model.backbone.parameters() if p.requires_grad]
    return not trained and any(layer.prior_mean == "carried" for layer in model.gp_layers)


def has_closed_form(model: DeepGP) -> bool:
    """Whether a model is one layer around such a network, and q(u) is free and of one block.

    Its likelihood has Gaussian noise; or is of labels, and has no parameters.
    """
    (first, *others), adapter = model.gp_layers, adapter_of(model.likelihood)
    q_is_free = len(first.q.blocks) == 1 and all(p.requires_grad for p in first.q.parameters())
    is_gaussian = adapter.noise_parameters().noise is not None
    is_label = adapter.has_temperature and not any(True for _ in model.likelihood.parameters())
    suits = is_gaussian or is_label
    return not others and has_trained_mean(model) and suits and q_is_free and first.horizon is None


@dataclass(frozen=True)
class NetworkErrors:
    """How far a network is off that stays as it is, and how that is known.

    Attributes:
        training: Its mean squared error on X.
        new: Its mean squared error on other rows, or what it is taken to be.
        source: What says so: held-out rows; or each row of X, left out of the network's last layer; or neither, where
            the last layer has nearly as many parameters as there are rows, or fits most of them only because it has
            seen them.
    """

    training: float
    new: float
    source: ErrorSource

    @property
    def ratio(self) -> float:
        """How many times as large the error on other rows is."""
        return self.new / self.training

    @property
    def overfits(self) -> bool:
        """Whether it fits X much better than other rows."""
        return self.ratio > MOST_OVERFITTED

    def __str__(self) -> str:
        on_training = f"the network's mean squared error is {self.training:.3g} on X"
        if self.source == "held-out rows":
            said = f"{on_training} and {self.new:.3g} on held-out rows, to which predictions were fitted"
            overfitted = f"{said}; it overfits X, and earlier stopping, more weight decay or more data may improve it"
            return overfitted if self.overfits else said
        if self.source == "leave-one-out":
            return (
                f"{on_training} and {self.new:.3g} when each row is left out of its last layer; layers before it have "
                "seen all rows, and predictions may be too narrow; held_out=(X, y) makes sure"
            )
        return (
            f"{on_training}, which says little of other rows, since its last layer has so many parameters that it fits "
            "rows only because it has seen them; pass held_out=(X, y), rows that it was not trained on"
        )


@dataclass(frozen=True)
class FitResult:
    """What fitting did.

    Attributes:
        objectives: The objective at each step. Of GPR and SGPR it is the log evidence and the bound; of a converted
            network in closed form, the log density of the rows that it is judged by, in nats for each, with priors; of
            a stage, the minibatch's estimate of it in nats for each row of the data.
        stopped: Why it ended: the objective converged, the steps were used up, no further step improved it, or a
            callback asked for it.
        skipped: How many minibatch steps were skipped because their objective or gradient was not finite.
        seconds: How long it took, over all the runs that it took.
        after_network: The model at the end of stage 1; None where there was no stage 1.
        kl_weight: What the KL was weighted by in stage 2.
        final_objectives: The objective at each step of stage 3, on all rows.
        network_objectives: The log-likelihood of the network at each step of stage 1, for each row of the data.
        errors: The errors of a converted network, where these are what widths were fitted to.
        held_out: The score of the held-out rows, in nats for each, at the parameters that stage 2, or the only one,
            ended with; None where there were none.

    Example:
        >>> import actgp, torch
        >>> X = torch.randn(50, 2)
        >>> model = actgp.deep_gp(input_dim=2, num_layers=2, num_inducing=10)
        >>> result = actgp.fit(model, X, X.sum(1), actgp.Recipe(network_steps=5, num_steps=5))
        >>> result.stopped, len(result.objectives)
        ('steps', 5)
    """

    objectives: tuple[float, ...]
    stopped: Stopped
    skipped: int
    seconds: float
    after_network: DeepGP | None = None
    network_objectives: tuple[float, ...] = ()
    final_objectives: tuple[float, ...] = ()
    kl_weight: float = 1.0
    errors: NetworkErrors | None = None
    held_out: float | None = None

    @property
    def network(self) -> nn.Module | None:
        """The network at the end of stage 1, a plain module; None where there was no stage 1."""
        return None if self.after_network is None else self.after_network.network().eval()
