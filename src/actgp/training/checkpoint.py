"""Checkpoints: everything that a run depends on, so that one taken up again ends as if it had never stopped."""

import copy
import json
import os
from dataclasses import asdict
from math import isnan
from pathlib import Path
from typing import Any

import torch
from gpytorch.priors import Prior
from torch import Tensor

from actgp.layers import GPLayer
from actgp.models import DeepGP
from actgp.persistence import archive, words
from actgp.training import ranks
from actgp.training.calibrate import Factors
from actgp.training.data import fingerprint
from actgp.training.stage import Stage
from actgp.training.stages import Run

KIND = "checkpoint"


def saved_seeds(path: str | os.PathLike[str]) -> tuple[int, ...]:
    """The seeds of a run that was saved, which its data were ordered and split by."""
    return tuple(ranks.from_first(lambda: archive.read(path, KIND)).document["seeds"])


def save_run(run: Run, path: str | os.PathLike[str]) -> None:
    """Writes a checkpoint, or leaves the one that is there."""
    document = {
        "recipe": asdict(run.recipe),
        "data": _fingerprint(run),
        "held_out": _held_out(run),
        "shape": _shape(run.model),
        "current": run.current,
        "seconds": run.seconds,
        "seeds": list(run.seeds),
        "has_network": run.after_network is not None,
        "factors": None if run.factors is None else list(run.factors),
        "stages": [
            {"skipped": stage.skipped, "stopped": stage.stopped, "best_step": stage.best_step} for stage in run.stages
        ],
    }
    tensors = {
        "random.generator": run.generator.get_state(),
        "random.shared": torch.get_rng_state(),
        **_named("batches", run.batches.state()),
        **_named("model", run.model.state_dict()),
        **_named("network", {} if run.after_network is None else run.after_network.state_dict()),
    }
    for i, stage in enumerate(run.stages):
        tensors |= _named(f"stage{i}", _stage_tensors(stage))
    archive.write(path, KIND, document, tensors)


def resume_run(run: Run, path: str | os.PathLike[str]) -> None:
    """Takes up the run of a checkpoint; nothing changes if it belongs to another one."""
    _, document, tensors = ranks.from_first(lambda: archive.read(path, KIND))
    _check(run, path, document, tensors)
    run.model.load_state_dict(_under("model", tensors))
    if document["has_network"]:
        run.after_network = copy.deepcopy(run.model).eval()
        run.after_network.load_state_dict(_under("network", tensors))
    run.current, run.seconds = document["current"], document["seconds"]
    run.factors = None if document["factors"] is None else Factors(*document["factors"])
    for i, (stage, said) in enumerate(zip(run.stages, document["stages"], strict=True)):
        stage.skipped, stage.stopped, stage.best_step = said["skipped"], said["stopped"], said["best_step"]
        _restore_stage(stage, _under(f"stage{i}", tensors))
    run.batches.restore(_under("batches", tensors))
    run.generator.set_state(tensors["random.generator"])
    torch.set_rng_state(tensors["random.shared"])


def check_same(run: Run) -> None:
    """Refuses ranks that have been given other recipes or data than rank 0."""
    if ranks.size() == 1:
        return
    ranks.check_same("the recipe", repr(run.recipe), "build the same one in each")
    remedy = "load all rows in each, of which it takes its part, or pass a DataLoader with a DistributedSampler"
    ranks.check_same("X and y", _fingerprint(run), remedy)
    ranks.check_same("held_out", repr(_held_out(run)), "give the same rows to each")


def _fingerprint(run: Run) -> str:
    return run.data[-1].batches.fingerprint()


def _held_out(run: Run) -> str | None:
    """Tells rows apart that were given to judge by."""
    given = [stage.held_out for stage in run.data if run.held_out_given and stage.held_out is not None]
    return fingerprint(*(values for rows in given for values in rows)) if given else None


def _check(run: Run, path: str | os.PathLike[str], document: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    ours = {name: (values.dtype, values.shape) for name, values in run.model.state_dict().items()}
    priors = {
        f"{name}.{own}": values
        for name, part in run.model.named_modules()
        if isinstance(part, Prior)
        for own, values in part.named_buffers()
    }
    theirs = {name: (values.dtype, values.shape) for name, values in _under("model", tensors).items()}
    for what, same in (
        ("recipe", document.get("recipe") == asdict(run.recipe)),
        ("data", document.get("data") == _fingerprint(run)),
        ("choice of held-out rows", document.get("held_out") == _held_out(run)),
        ("prior", _same(priors, _under("model", tensors))),
        ("model", ours == theirs and document.get("shape", _shape(run.model)) == _shape(run.model)),
    ):
        if not same:
            raise ValueError(
                f"a checkpoint must belong to this run, got {str(Path(path))!r} of a run with another {what}; "
                f"use the same {what} as then, or remove the file to start anew"
            )


def _same(priors: dict[str, Tensor], saved: dict[str, Tensor]) -> bool:
    """Whether priors that are in both have the same numbers; the rest is for the comparison of models to tell."""
    return all(torch.equal(values.cpu(), saved[name]) for name, values in priors.items() if name in saved)


def _shape(model: DeepGP) -> list[Any]:
    """What layers are beside their tensors, as it comes back from a file."""
    try:
        likelihood: Any = words(model.likelihood, "likelihood")
    except (TypeError, ValueError):  # it is code, or has more than one number for a parameter
        likelihood = type(model.likelihood).__name__
    shape: list[Any] = [*(_layer_words(layer) for layer in model.gp_layers), likelihood]
    return json.loads(json.dumps(shape))


def _layer_words(layer: GPLayer) -> Any:
    try:
        return words(layer, "layer")
    except TypeError:  # parts that are code
        return [[type(part).__name__ for part in layer.modules()], layer.prior_mean, layer.horizon]


def _stage_tensors(stage: Stage) -> dict[str, Tensor]:
    schedule = stage.schedule
    tensors = {
        "objectives": torch.tensor(stage.objectives, dtype=torch.float64),
        "window": torch.tensor(schedule.window, dtype=torch.float64),
        "schedule": torch.tensor([schedule.best, schedule.waited, schedule.cuts], dtype=torch.float64),
        "scores": torch.tensor(
            [float("nan") if stage.score is None else stage.score, stage.best_score], dtype=torch.float64
        ),
        **_named("best", stage.best),
        **_named("average", {str(i): values for i, values in enumerate(stage.average)}),
    }
    for i, optimiser in enumerate(stage.optimisers):
        for index, values in optimiser.state_dict()["state"].items():
            tensors |= _named(f"optimiser{i}.{index}", values)
    return tensors


def _restore_stage(stage: Stage, tensors: dict[str, Tensor]) -> None:
    stage.objectives = tensors["objectives"].tolist()
    stage.schedule.window = tensors["window"].tolist()
    (score, stage.best_score), stage.best = tensors["scores"].tolist(), _under("best", tensors)
    stage.score = None if isnan(score) else score
    average = _under("average", tensors)
    parameters = stage.parameters()[: len(average)]
    stage.average = [average[str(i)].to(p.device) for i, p in enumerate(parameters)]
    best, waited, cuts = tensors["schedule"].tolist()
    stage.schedule.best, stage.schedule.waited, stage.schedule.cuts = best, int(waited), int(cuts)
    for i, optimiser in enumerate(stage.optimisers):
        state: dict[int, dict[str, Tensor]] = {}
        for name, values in _under(f"optimiser{i}", tensors).items():
            index, key = name.split(".")
            state.setdefault(int(index), {})[key] = values
        optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})


def _named(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": values for name, values in tensors.items()}


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    start = f"{prefix}."
    return {name.removeprefix(start): values for name, values in tensors.items() if name.startswith(start)}
