"""Fitting any of the models, each by what suits it."""

import copy
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from actgp.autocast import full_precision
from actgp.models import GPR, SGPR, DeepGP
from actgp.on_disk import Table, table_of
from actgp.several import GivenRows, Inputs, Rows
from actgp.training import ranks
from actgp.training.checkpoint import check_same, resume_run, save_run, saved_seeds
from actgp.training.closed_form import enough_labels, fit_in_closed_form
from actgp.training.data import backbone_features, checked, data_of_stages
from actgp.training.exact import fit_exactly
from actgp.training.objectives import check_priors
from actgp.training.recipe import FitResult, Recipe, has_closed_form, has_trained_mean
from actgp.training.stage import Callback, Step, is_frozen
from actgp.training.stages import Run, final_stage, network_stage, posterior_stage, run_stages

EXACT_STEPS = 200

OnDisk = Any  # a numpy.memmap; a pyarrow.dataset.Dataset, and the names of its targets


@full_precision
@torch.enable_grad()
def fit(
    model: GPR | SGPR | DeepGP,
    X: GivenRows | DataLoader[Any] | OnDisk | None = None,
    y: Tensor | OnDisk | None = None,
    recipe: Recipe | None = None,
    *,
    held_out: tuple[GivenRows, Tensor] | None = None,
    device: torch.device | str | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    callback: Callback | None = None,
    generator: torch.Generator | None = None,
    progress: bool = True,
    num_data: int | None = None,
) -> FitResult:
    """Trains a model in place.

    GPR and SGPR hold their data and have an exact objective: L-BFGS, for `recipe.num_steps` (200) or until it
    converges. SVGP and DeepGP are trained on minibatches in stages: as a network; after a warm start in closed form, as
    a posterior; and, if rows were held out to validate these, as a posterior of all rows. An interrupt leaves the model
    as it was after the last step, with predictions calibrated by held-out rows, if that was done before. Where targets
    are rounded, Gaussian noise is kept above the rounding. Priors that are registered on parameters, by gpytorch's
    `register_prior`, enter every objective: parameters are fitted a posteriori. A backbone is trained in all stages,
    unless none of its parameters requires a gradient: then the layers are fitted to what it makes of X. A converted
    network with Gaussian noise is fitted in closed form, and what steps the recipe has come after that.

    Args:
        model: The model, changed in place.
        X: Inputs, or a DataLoader that gives pairs (X, y); for a converted network of several inputs a tuple or
            dictionary of tensors. Not for GPR and SGPR. Rows that stay on the disk: a `numpy.memmap`, or a
            `pyarrow.dataset.Dataset`, which are read in blocks.
        y: Targets, where X is a tensor; beside a `numpy.memmap` an array, of a data set the names of its columns.
        recipe: Objective, steps and rates; what suits the model by default.
        held_out: Rows (X, y) to validate on, at most 1,000 for each stage: halves where there are two; then all of X is
            trained on. For a DataLoader, and for a backbone or a network that has been trained on X already. The closed
            form of a converted network uses all of them.
        device: Where to train: model and data are moved there. Where the model is, by default.
        checkpoint: A file that the run is saved to every few seconds, and taken up from if it is there: run again what
            was interrupted or killed, and it ends with the same model.
        callback: Called after each step with a `Step`; ends the stage if it returns True.
        generator: Source of all randomness; torch's global one by default.
        progress: Whether to show a progress bar, on a terminal.
        num_data: N, the rows of a pass of a DataLoader whose data set has no length.

    Returns:
        How the training went; the model itself is changed in place.

    Example:
        >>> import actgp, torch
        >>> X = torch.randn(200, 4)
        >>> model = actgp.deep_gp(input_dim=4, num_layers=2, num_inducing=20)
        >>> result = actgp.fit(model, X, X.sum(1), actgp.Recipe(network_steps=5, num_steps=5))
    """
    check_options(recipe, held_out, callback, generator)
    ranks.join()
    progress = progress and ranks.rank() == 0
    if isinstance(model, GPR | SGPR):
        if X is not None or y is not None:
            raise ValueError(
                f"{type(model).__name__} was given its data when it was built, got X or y again; leave them out"
            )
        for name, given in (("held_out", held_out), ("checkpoint", checkpoint), ("callback", callback)):
            if given is not None:
                raise ValueError(
                    f"{type(model).__name__} is fitted in one go, to all of its data, got {name}; leave it out"
                )
        _check_parameters(model)
        if device is not None:
            model.to(device)
        result = fit_exactly(model, EXACT_STEPS if recipe is None else max(1, recipe.num_steps), progress)
        ranks.copy_first(model.state_dict().values())  # of several ranks, each has fitted all
        return result
    if not isinstance(model, DeepGP):
        raise TypeError(f"model must be a GPR, SGPR, SVGP or DeepGP, got {type(model).__name__}; build one of those")
    _check_parameters(model)
    recipe = Recipe.suited_to(model) if recipe is None else recipe
    _check_recipe(model, recipe, checkpoint, callback)
    table = table_of(X, y)
    X, y = (X, y) if table is None else (table, None)
    X = X if X is None or isinstance(X, DataLoader | Table) else model.rows(X)
    others = None if held_out is None else (model.rows(held_out[0]), held_out[1])
    backbone = [] if model.backbone is None else list(model.backbone.parameters())
    if isinstance(X, Inputs) and any(p.requires_grad for p in backbone):
        raise ValueError(
            "several inputs need a backbone that is frozen, as that of convert is, got one to be trained; "
            "call model.backbone.requires_grad_(False), or pass one tensor"
        )
    if isinstance(X, Inputs) or (isinstance(X, Tensor) and is_frozen(model.backbone)):
        X, y = enough_labels(model, X, y, recipe)
        return _fit_head(model, X, y, recipe, others, device, checkpoint, callback, generator, progress)
    device = next(model.parameters()).device if device is None else torch.device(device)
    closed = fit_in_closed_form(model, X, y, others, device, progress, num_data) if has_closed_form(model) else None
    if closed is not None and recipe.num_steps == 0:
        return closed
    if checkpoint is not None and _exists(checkpoint):
        seeds = saved_seeds(checkpoint)
    else:
        drawn = torch.randint(2**62, (3,), generator=generator).tolist()
        seeds = ranks.from_first(lambda: tuple(drawn))
    orders, weights = (torch.Generator().manual_seed(seed) for seed in seeds[:2])
    data = data_of_stages(model, X, y, recipe, device, orders, others, num_data)
    model.to(device)
    ranks.copy_first(model.state_dict().values())
    paths = torch.Generator(device).manual_seed(seeds[2])
    (first, first_held_out), (second, held_out_rows), *last = data
    weight = recipe.weight(judged=held_out_rows is not None)
    stages = (
        network_stage(model, recipe, first.num_data, first_held_out),
        posterior_stage(model, recipe, second.num_data, paths, weight, held_out_rows),
        *(final_stage(model, recipe, whole.num_data, paths, weight) for whole, _ in last),
    )
    run = Run(model, recipe, data, paths, stages, seeds=seeds, held_out_given=held_out is not None)
    check_same(run)
    if closed is None:
        return _fit_in_stages(run, weights, checkpoint, callback, progress)
    run.in_closed_form = True
    result = _fit_in_stages(run, weights, checkpoint, callback, progress)
    return replace(result, seconds=closed.seconds + result.seconds, errors=closed.errors)


def _fit_head(
    model: DeepGP,
    X: Rows,
    y: Tensor | None,
    recipe: Recipe,
    held_out: tuple[Rows, Tensor] | None,
    device: torch.device | str | None,
    checkpoint: str | os.PathLike[str] | None,
    callback: Callback | None,
    generator: torch.Generator | None,
    progress: bool,
) -> FitResult:
    """Fits the layers behind a frozen backbone, which each input goes through once."""
    for rows in ((X, y), held_out or (X, y)):  # before anything is moved, or goes through the backbone
        checked(model, *rows)
    head = DeepGP(model.gp_layers, model.likelihood)  # the same layers
    if device is not None:
        model.to(device)
    ranks.copy_first(model.state_dict().values())

    def report(step: Step) -> bool | None:
        assert callback is not None
        return callback(step._replace(model=model))

    result = fit(
        head,
        backbone_features(model, X),
        y,
        recipe,
        held_out=None if held_out is None else (backbone_features(model, held_out[0]), held_out[1]),
        checkpoint=checkpoint,
        callback=None if callback is None else report,
        generator=generator,
        progress=progress,
    )
    if result.after_network is None:
        return result
    layers = result.after_network.gp_layers
    return replace(result, after_network=DeepGP(layers, model.likelihood, copy.deepcopy(model.backbone)))


def _fit_in_stages(
    run: Run,
    weights: torch.Generator,
    path: str | os.PathLike[str] | None,
    callback: Callback | None,
    progress: bool,
) -> FitResult:
    """Runs the stages, or what is left of them after the checkpoint at `path`."""
    if path is not None and _exists(path):
        resume_run(run, path)
    began, saved = time.perf_counter() - run.seconds, time.perf_counter()

    def save(interval: float = 0.0) -> None:
        nonlocal saved
        run.seconds = time.perf_counter() - began
        if path is not None and ranks.rank() == 0 and time.perf_counter() - saved >= interval:
            save_run(run, path)
            saved = time.perf_counter()

    if run.seconds == 0.0:
        ranks.from_first(save)
    run_stages(run, weights, save, callback, progress)
    network, posterior, *final = run.stages
    judged = posterior if run.recipe.num_steps > 0 else network
    assert judged.stopped is not None
    return FitResult(
        tuple(posterior.objectives),
        judged.stopped,
        sum(stage.skipped for stage in run.stages),
        run.seconds,
        run.after_network,
        tuple(network.objectives),
        tuple(objective for stage in final for objective in stage.objectives),
        run.kl_weight,
        held_out=None if judged.score is None else judged.best_score,
    )


def _exists(path: str | os.PathLike[str]) -> bool:
    return ranks.from_first(Path(path).exists)


def _check_recipe(
    model: DeepGP, recipe: Recipe, checkpoint: str | os.PathLike[str] | None, callback: Callback | None
) -> None:
    """Refuses a network stage where there is no network to train, and what belongs to steps where none are taken."""
    if has_trained_mean(model) and recipe.network_steps > 0:
        raise ValueError(
            "network_steps must be 0 for a converted network, which is trained already and stays as it is, got "
            f"{recipe.network_steps}; leave the recipe out, or pass e.g. actgp.Recipe(network_steps=0, num_steps=500)"
        )
    if not has_closed_form(model) or recipe.num_steps > 0:
        return
    for name, given in (("checkpoint", checkpoint), ("callback", callback)):
        if given is not None:
            raise ValueError(
                f"a converted network with Gaussian noise is fitted in one go, got {name}; leave it out, or take steps "
                "on the ELBO after that, by actgp.Recipe(network_steps=0, num_steps=500, objective='elbo')"
            )


def _check_parameters(model: torch.nn.Module) -> None:
    check_priors(model)
    if not any(p.requires_grad for p in model.parameters()):
        raise ValueError("a model must have parameters to fit, got none that requires a gradient; free some of them")


def check_options(recipe: Any, held_out: Any, callback: Any, generator: Any) -> None:
    """Refuses what cannot be followed, held out, called or drawn from."""
    if recipe is not None and not isinstance(recipe, Recipe):
        raise TypeError(
            f"recipe must be an actgp.Recipe or None, got {type(recipe).__name__}; "
            "pass e.g. actgp.Recipe(num_steps=500)"
        )
    if held_out is not None and not (
        isinstance(held_out, list | tuple)
        and len(held_out) == 2
        and isinstance(held_out[0], Tensor | list | tuple | dict)
        and isinstance(held_out[1], Tensor)
    ):
        raise TypeError(
            f"held_out must be a pair of tensors (X, y), got {type(held_out).__name__}; "
            "pass held_out=(X, y), rows that are not trained on"
        )
    if callback is not None and not callable(callback):
        raise TypeError(
            f"callback must be a function of a Step, got {type(callback).__name__}; pass a function, or None"
        )
    if generator is not None and not isinstance(generator, torch.Generator):
        raise TypeError(
            f"generator must be a torch.Generator, got {type(generator).__name__}; "
            "pass e.g. torch.Generator().manual_seed(0)"
        )
