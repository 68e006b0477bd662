"""The stages: a network, then the posterior around it, and at last that of all rows.

Stage 1 trains the composed means as a network, in whitened coordinates: the parameters are m, not V = L⁻ᵀ m, so that
Adam sees well-scaled directions, and ‖m‖² is the norm that the KL will charge. Stage 2, after `warm_start`, trains
everything, q(u) by natural gradients. Stage 3 is a short second one, at lower rates, on the rows that stage 2 was
trained on and those that were held out of it.
"""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn

from actgp.layers import mean_function
from actgp.likelihoods import adapter_of
from actgp.models import DeepGP
from actgp.training import ranks
from actgp.training.calibrate import (
    Factors,
    apply_factors,
    bound_noise_by_rounding,
    calibrate_temperature,
    choose_factors,
)
from actgp.training.data import Batches, StageData
from actgp.training.loader import Batch
from actgp.training.natural import NaturalGradient
from actgp.training.objectives import (
    Evaluation,
    log_prior,
    network_objective,
    network_score,
    posterior_objective,
    posterior_score,
    prior_share,
)
from actgp.training.progress import progress_bar
from actgp.training.recipe import Recipe
from actgp.training.stage import Callback, Schedule, Stage, train_mode
from actgp.training.warm_start import place_points, warm_start

DECAY = 1.0  # of stage 2: its steps are noisy, and rates go down from the first on
MEMORY = 100  # steps that the average of its parameters goes back
LAST_PART = 8  # stage 3 has an eighth of the steps that stage 2 may have
LAST_RATE, LAST_NATURAL_RATE = 0.2, 0.5  # its rates, as parts of those of stage 2
CHECKPOINT_SECONDS = 10.0
SKIP_SPREAD = 0.3  # of what a layer adds to its skip connection at first, relative to its inputs


@dataclass
class Run:
    """The state of a run over all stages.

    Attributes:
        model: The model.
        recipe: How it is trained.
        data: The rows of each stage, to train on and held out.
        generator: Draws the paths through hidden layers.
        stages: One for each part of the data.
        current: Which of them is under way; their number when the run is complete.
        after_network: The model at the end of stage 1.
        seconds: How long the run took until the last checkpoint.
        seeds: Of all that is random in the run.
        held_out_given: Whether the held-out rows were given, and not taken from the others.
        factors: What calibration has chosen by the held-out rows of stage 2, until it is applied at the end.
        in_closed_form: Whether stage 2 begins with a posterior that has been found in closed form.
    """

    model: DeepGP
    recipe: Recipe
    data: tuple[StageData, ...]
    generator: torch.Generator
    stages: tuple[Stage, ...]
    current: int = 0
    after_network: DeepGP | None = None
    seconds: float = 0.0
    seeds: tuple[int, ...] = ()
    held_out_given: bool = False
    factors: Factors | None = None
    in_closed_form: bool = False

    @property
    def batches(self) -> Batches:
        """Of the stage under way, or of the last one."""
        return self.data[min(self.current, len(self.data) - 1)].batches

    @property
    def held_out(self) -> Batch | None:
        """The held-out rows of stage 2."""
        return self.data[1].held_out

    @property
    def kl_weight(self) -> float:
        """The weight of the KL in stage 2."""
        return self.recipe.weight(judged=self.held_out is not None)


def run_stages(
    run: Run, weights: torch.Generator, save: Callable[[float], None], callback: Callback | None, bar: bool
) -> None:
    """Takes a run from the stage under way to its end, or to an interrupt.

    Args:
        run: The run.
        weights: Draws those of a new network.
        save: Saves the run, unless that was done less than so many seconds ago.
        callback: Called after each step, too.
        bar: Whether to show a progress bar.
    """
    model, recipe = run.model, run.recipe
    train_mode(model)
    try:
        while run.current < len(run.stages):
            stage = run.stages[run.current]
            if not stage.objectives:
                with undone_if_broken_off(model):
                    _prepare(run, weights)
            title, done, total = (
                f"fit {type(model).__name__}: {stage.name}",
                len(stage.objectives),
                stage.schedule.num_steps,
            )
            with progress_bar(title, total, done=done) if bar else nullcontext(lambda *_: None) as report:
                stage.run(run.batches, report, callback, partial(save, CHECKPOINT_SECONDS))
            if stage.name == "network" and recipe.network_steps > 0:
                run.after_network = copy.deepcopy(model).eval()
            if stage.name == "posterior" and recipe.num_steps > 0 and recipe.calibrate:
                _calibrate(run)
            if stage is run.stages[-1]:
                _apply_factors(run)
            run.current += 1
            save(0.0)
    finally:
        model.eval()
        _apply_factors(run)  # also after an interrupt of stage 3


def _prepare(run: Run, weights: torch.Generator) -> None:
    """What comes before the first step of a stage."""
    run.model.eval()
    if run.current == 0 and run.recipe.network_steps > 0:
        draw_means(run.model, run.batches, weights)
    if run.current == 1 and run.recipe.num_steps > 0 and not run.in_closed_form:
        place_points(run.model, run.batches, run.seeds[1])
        bound_noise_by_rounding(run.model, run.batches, run.held_out)
        warm_start(run.model, run.batches, run.recipe, run.kl_weight)
    ranks.copy_first(run.model.state_dict().values())
    train_mode(run.model)


def _calibrate(run: Run) -> None:
    """Chooses factors by the held-out rows of stage 2, to be applied at the end; by given ones, a temperature too."""
    if run.held_out is None:
        return
    run.model.eval()
    run.factors = choose_factors(run.model, *run.held_out)
    if run.held_out_given:
        with undone_if_broken_off(run.model):
            calibrate_temperature(run.model, *run.held_out)
            ranks.copy_first(run.model.state_dict().values())
    train_mode(run.model)


def _apply_factors(run: Run) -> None:
    """Applies the factors that have been chosen, once."""
    if run.factors is None:
        return
    with undone_if_broken_off(run.model):
        apply_factors(run.model, run.factors)
        run.factors = None


@contextmanager
def undone_if_broken_off(model: nn.Module) -> Iterator[None]:
    """Gives a model its parameters back where an error or an interrupt ends the block."""
    before = {name: values.detach().clone() for name, values in model.state_dict().items()}
    try:
        yield
    except BaseException:
        model.load_state_dict(before)
        raise


def network_stage(model: DeepGP, recipe: Recipe, num_data: int, held_out: Batch | None) -> Stage:
    """Everything but S, and Gaussian noise, by Adam."""
    untouched = {id(layer.q.raw_scale_tril) for layer in model.gp_layers}
    if adapter_of(model.likelihood).squared_error:  # which does not depend on noise
        untouched |= {id(p) for p in model.likelihood.parameters()}
    own = _trainable(model, untouched)
    if recipe.network_steps > 0 and not own:
        raise ValueError(
            "stage 1 needs parameters beside S and Gaussian noise, got none that requires a gradient; free some, or "
            "pass network_steps=0"
        )
    optimisers: list[torch.optim.Optimizer] = [torch.optim.Adam(own, lr=recipe.network_rate, fused=True)] if own else []

    evaluate = partial(network_objective, model, prior=prior_share(model, num_data), average=ranks.mean)
    monitor = None if held_out is None else partial(network_score, model, *ranks.even_shard(*held_out), num_data)
    schedule = Schedule(recipe.network_steps, recipe.patience)
    return Stage("network", model, evaluate, optimisers, schedule, monitor)


def posterior_stage(
    model: DeepGP,
    recipe: Recipe,
    num_data: int,
    generator: torch.Generator,
    kl_weight: float,
    held_out: Batch | None,
) -> Stage:
    """q(u) by natural gradients, the rest by Adam.

    It does not end early: its first steps, at the highest rates, may lose more than they win back before rates fall.
    """
    free = [layer.q for layer in model.gp_layers if all(p.requires_grad for p in layer.q.parameters())]
    natural = {id(p) for q in free for p in q.parameters()}
    optimisers: list[torch.optim.Optimizer] = []
    if free:
        optimisers.append(NaturalGradient(free, recipe.natural_rate))
    if rest := _trainable(model, natural):
        optimisers.append(torch.optim.Adam(rest, lr=recipe.learning_rate, fused=True))

    prior = prior_share(model, num_data)

    def evaluate(X: Tensor, y: Tensor) -> Evaluation:
        return posterior_objective(model, X, y, num_data, recipe, kl_weight, generator, prior)

    rows = None if held_out is None else ranks.even_shard(*held_out)

    def score() -> float:
        assert rows is not None
        return posterior_score(model, *rows) + log_prior(model).item() / num_data

    monitor = None if held_out is None else score
    schedule = Schedule(recipe.num_steps, recipe.patience, DECAY)
    return Stage("posterior", model, evaluate, optimisers, schedule, monitor, MEMORY, early_stopping=None)


def final_stage(model: DeepGP, recipe: Recipe, num_data: int, generator: torch.Generator, kl_weight: float) -> Stage:
    """As stage 2, on all rows: none are held out."""
    gently = replace(
        recipe,
        num_steps=recipe.num_steps // LAST_PART,
        learning_rate=LAST_RATE * recipe.learning_rate,
        natural_rate=LAST_NATURAL_RATE * recipe.natural_rate,
    )
    return replace(posterior_stage(model, gently, num_data, generator, kl_weight, None), name="final")


@torch.no_grad()
def draw_means(model: DeepGP, batches: Batches, generator: torch.Generator) -> None:
    """Gives a new model, whose means are all zero, the random weights from which a network learns.

    What a hidden layer puts out has unit spread over the data, or, beside a skip connection, a fraction of that of its
    inputs. The last layer stays at zero.
    """
    if any(layer.q.raw_mean.any() for layer in model.gp_layers):
        return
    X, _ = next(iter(batches.all()))
    h = ranks.gathered(model.enter(X))
    for layer in model.gp_layers[:-1]:
        q = layer.q
        drawn = q.raw_mean[: q.blocks[0]]  # points beside activations have no means yet
        drawn.copy_(torch.randn(drawn.shape, generator=generator, dtype=q.raw_mean.dtype))  # on the CPU, then moved
        skip = layer.prior_mean == "identity"
        added = mean_function(layer)(h) - h if skip else mean_function(layer)(h)
        wanted = SKIP_SPREAD * _spread(h) if skip else 1.0
        q.raw_mean.mul_(wanted / _spread(added).clamp_min(1e-6))
        h = mean_function(layer)(h)


def _spread(h: Tensor) -> Tensor:
    """The root mean square deviation of rows from their mean; for a single row, its size."""
    return (h - h.mean(0) if len(h) > 1 else h).square().mean().sqrt()


def _trainable(model: nn.Module, without: set[int]) -> list[nn.Parameter]:
    return [p for p in model.parameters() if p.requires_grad and id(p) not in without]
