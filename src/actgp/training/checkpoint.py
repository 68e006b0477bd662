"""Checkpoints: everything that a run depends on, so that one taken up again ends as if it had never stopped."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from gpytorch.priors import Prior
from torch import Tensor, nn

from actgp.layers import GPLayer
from actgp.models import DeepGP
from actgp.persistence import archive, words
from actgp.training.calibrate import Factors
from actgp.training.data import Batch, Batches, StageData, fingerprint
from actgp.training.recipe import Recipe
from actgp.training.stage import Stage

KIND = "checkpoint"


def saved_seeds(path: str | os.PathLike[str]) -> tuple[int, ...]:
    """The seeds of a run that was saved, which its data were ordered and split by."""
    return tuple(archive.read(path, KIND).document["seeds"])


@dataclass
class Run:
    """The state of a run over all stages.

    Attributes:
        model: The model.
        recipe: How it is trained.
        data: The rows of each stage, to train on and to judge by.
        generator: Draws the paths through hidden layers.
        stages: One for each part of the data.
        current: Which of them is under way; their number when the run is complete.
        network: The network at the end of stage 1.
        seconds: How long the run took until the last checkpoint.
        seeds: Of all that is random in the run.
        judges_given: Whether the rows to judge by were given, and not taken from the others.
        factors: What rows held out of stage 2 have chosen, until it is applied at the end.
    """

    model: DeepGP
    recipe: Recipe
    data: tuple[StageData, ...]
    generator: torch.Generator
    stages: tuple[Stage, ...]
    current: int = 0
    network: nn.Module | None = None
    seconds: float = 0.0
    seeds: tuple[int, ...] = ()
    judges_given: bool = False
    factors: Factors | None = None

    @property
    def batches(self) -> Batches:
        """Of the stage under way, or of the last one."""
        return self.data[min(self.current, len(self.data) - 1)].batches

    @property
    def judges(self) -> Batch | None:
        """The rows that stage 2 is judged by."""
        return self.data[1].held_out

    @property
    def kl_weight(self) -> float:
        """The weight of the KL in stage 2."""
        return self.recipe.weight(judged=self.judges is not None)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a checkpoint, or leaves the one that is there."""
        document = {
            "recipe": asdict(self.recipe),
            "data": self._fingerprint(),
            "judges": self._judges(),
            "shape": _shape(self.model),
            "current": self.current,
            "seconds": self.seconds,
            "seeds": list(self.seeds),
            "has_network": self.network is not None,
            "factors": None if self.factors is None else list(self.factors),
            "stages": [
                {"skipped": stage.skipped, "stopped": stage.stopped, "best_step": stage.best_step}
                for stage in self.stages
            ],
        }
        tensors = {
            "random.generator": self.generator.get_state(),
            "random.shared": torch.get_rng_state(),
            **_named("batches", self.batches.state()),
            **_named("model", self.model.state_dict()),
            **_named("network", {} if self.network is None else self.network.state_dict()),
        }
        for i, stage in enumerate(self.stages):
            tensors |= _named(f"stage{i}", _stage_tensors(stage))
        archive.write(path, KIND, document, tensors)

    def resume(self, path: str | os.PathLike[str]) -> None:
        """Takes up the run of a checkpoint; nothing changes if it belongs to another one."""
        _, document, tensors = archive.read(path, KIND)
        self._check(path, document, tensors)
        self.model.load_state_dict(_under("model", tensors))
        if document["has_network"]:
            self.network = self.model.network().eval()
            self.network.load_state_dict(_under("network", tensors))
        self.current, self.seconds = document["current"], document["seconds"]
        self.factors = None if document["factors"] is None else Factors(*document["factors"])
        for i, (stage, said) in enumerate(zip(self.stages, document["stages"], strict=True)):
            stage.skipped, stage.stopped, stage.best_step = said["skipped"], said["stopped"], said["best_step"]
            _restore_stage(stage, _under(f"stage{i}", tensors))
        self.batches.restore(_under("batches", tensors))
        self.generator.set_state(tensors["random.generator"])
        torch.set_rng_state(tensors["random.shared"])

    def _fingerprint(self) -> str:
        return self.data[-1].batches.fingerprint()

    def _judges(self) -> str | None:
        """Tells rows apart that were given to judge by."""
        given = [stage.held_out for stage in self.data if self.judges_given and stage.held_out is not None]
        return fingerprint(*(values for rows in given for values in rows)) if given else None

    def _check(self, path: str | os.PathLike[str], document: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        ours = {name: (values.dtype, values.shape) for name, values in self.model.state_dict().items()}
        priors = {
            f"{name}.{own}": values
            for name, part in self.model.named_modules()
            if isinstance(part, Prior)
            for own, values in part.named_buffers()
        }
        theirs = {name: (values.dtype, values.shape) for name, values in _under("model", tensors).items()}
        for what, same in (
            ("recipe", document.get("recipe") == asdict(self.recipe)),
            ("data", document.get("data") == self._fingerprint()),
            ("choice of held-out rows", document.get("judges") == self._judges()),
            ("prior", _same(priors, _under("model", tensors))),
            ("model", ours == theirs and document.get("shape", _shape(self.model)) == _shape(self.model)),
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
    shape: list[Any] = [*(_told(layer) for layer in model.gp_layers), likelihood]
    return json.loads(json.dumps(shape))


def _told(layer: GPLayer) -> list[Any]:
    try:
        told: Any = words(layer, "layer")
    except TypeError:  # parts that are code
        told = [[type(part).__name__ for part in layer.modules()], layer.prior_mean, layer.horizon]
    return [told, [value.item() for name, value in layer.named_buffers() if name.endswith("fixed_beta")]]


def _stage_tensors(stage: Stage) -> dict[str, Tensor]:
    schedule = stage.schedule
    tensors = {
        "objectives": torch.tensor(stage.objectives, dtype=torch.float64),
        "window": torch.tensor(schedule.window, dtype=torch.float64),
        "schedule": torch.tensor([schedule.best, schedule.waited, schedule.cuts], dtype=torch.float64),
        "best_score": torch.tensor(stage.best_score, dtype=torch.float64),
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
    stage.best_score, stage.best = tensors["best_score"].item(), _under("best", tensors)
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
