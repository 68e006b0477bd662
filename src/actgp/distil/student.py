"""One module, one pass, a predictive distribution: what `distill` gives, and what a file holds of it."""

import os
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from actgp import checks
from actgp.distil.features import Features, Standardised
from actgp.distil.fidelity import FidelityReport
from actgp.distil.heads import ClassHead, SmallNetwork, ValueHead
from actgp.distil.mixed_trunk import MixedTrunk, trunk_of
from actgp.distil.outputs import Classes, Normals, Outputs, in_precision, joined
from actgp.distil.scaling import Scaling
from actgp.distil.stand_in import WIDTH, LearntTrunk
from actgp.distil.trunk import Along, Trunk
from actgp.models import DeepGP, Mixture
from actgp.persistence import Sizes, savable, save

AnyTrunk = Trunk | MixedTrunk | LearntTrunk

ROWS = 2_048  # of a prediction, for each thread: what a layer makes of them stays in the cache


class Student(nn.Module):
    """The predictive distribution of a model, in one pass: its `forward` gives a `Normals`, `LongTailed` or `Classes`.

    Made by `distill`, in the precision of the model; what it has learnt is in single precision.

    Args:
        trunk: What is exact.
        features: What the head sees.
        head: What is learnt.
        backbone: What the inputs go through first.
        scaling: What stands between data and model.

    Attributes:
        report: How faithful it is to the model.

    Example:
        >>> import actgp, torch
        >>> X = torch.linspace(-2, 2, 100)[:, None]
        >>> model = actgp.deep_gp(input_dim=1, num_layers=1, num_inducing=10)
        >>> student = actgp.distill(model, X, num_places=200, num_steps=100)
        >>> lower, upper = student.predict(X).interval(0.9)
    """

    report: FidelityReport
    _structure: tuple[DeepGP | Mixture]  # no part of the module: only files need it

    def __init__(
        self,
        trunk: AnyTrunk,
        features: Features,
        head: ValueHead | ClassHead,
        backbone: nn.Module | None = None,
        scaling: Scaling | None = None,
    ) -> None:
        super().__init__()
        self.scaling, self.backbone = scaling, backbone
        self.trunk, self.features, self.head = trunk, features, head

    @property
    def structure(self) -> DeepGP | Mixture:
        """The deep GP, or the mixture, that the trunk was made from."""
        return self._structure[0]

    @structure.setter
    def structure(self, model: DeepGP | Mixture) -> None:
        self._structure = (model,)

    @property
    def dtype(self) -> torch.dtype:
        """What it computes in: the precision of its model, or single precision where means were learnt."""
        return self.features.x.centre.dtype

    def forward(self, X: Tensor) -> Outputs:
        """The distribution, in the precision of X. Nothing is checked: a row with NaN gives NaN."""
        outputs = in_precision(self.behind(self.enter(X)), X.dtype)
        return outputs if self.scaling is None else self.scaling.outputs(outputs)

    def enter(self, X: Tensor) -> Tensor:
        """Rows as the trunk is given them."""
        X = X if self.scaling is None else self.scaling.inputs(X)
        return X.to(self.dtype) if self.backbone is None else self.backbone(X)

    def behind(self, h: Tensor) -> Normals | Classes:
        """What it says of rows of the trunk, in the units of the model."""
        along: Along = self.trunk(h)
        return self.head(along, self.features(h, along))

    @torch.no_grad()
    def predict(self, X: Tensor) -> Outputs:
        """The same for rows that are checked, some at a time; without gradients."""
        if self.backbone is None:
            checks.inputs(X, self.features.x.centre.shape[0])
        parts = [self(part) for part in X.split(ROWS * torch.get_num_threads())]
        return joined(parts)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the student to a file, all of it at once; `actgp.load` reads it."""
        save(SavedStudent.of(self), path, "student")


@savable
@dataclass(frozen=True)
class SavedStudent:
    """A student in words and tensors.

    Attributes:
        structure: The deep GP, or the mixture, that its trunk is made from.
        learnt: Whether its means were learnt, and are not those of the structure.
        classes: C; None for real targets.
        scaled: Whether data are scaled.
        long_tailed: Whether targets are those of a long tail.
        values: All other tensors, one after the other.
        report: How faithful it is.
    """

    SIZES: ClassVar[Sizes] = {"values": ("numbers",)}

    structure: DeepGP | Mixture
    learnt: bool
    classes: int | None
    scaled: bool
    long_tailed: bool
    values: Tensor
    report: FidelityReport

    def __post_init__(self) -> None:
        members = self.structure.members if isinstance(self.structure, Mixture) else [self.structure]
        if self.values.dtype != torch.float64 or any(member.backbone is not None for member in members):
            raise ValueError(
                "a saved student must have values in double precision and layers without a backbone, got others; "
                "save it again"
            )

    @classmethod
    def of(cls, student: Student) -> "SavedStudent":
        """What a file holds of a student."""
        if student.backbone is not None:
            raise ValueError(
                f"to be saved, a student must have no backbone, got a {type(student.backbone).__name__}, whose code no "
                "file holds; export it with actgp.export, or keep its state_dict()"
            )
        classes = len(student.head.logits) if isinstance(student.head, ClassHead) else None
        learnt, scaling = isinstance(student.trunk, LearntTrunk), student.scaling
        scales = (scaling is not None, scaling is not None and scaling.tail is not None)
        return cls(student.structure, learnt, classes, *scales, _values(_parts(student)), student.report)

    def student(self) -> Student:
        """The student again."""
        P = self.structure.num_outputs
        first = self.structure.members[0] if isinstance(self.structure, Mixture) else self.structure
        D, dtype = first.gp_layers[0].input_dim, first.dtype
        with torch.no_grad():
            nothing = torch.zeros(2, D, dtype=dtype)
            trunk: AnyTrunk
            if self.learnt and isinstance(self.structure, DeepGP):
                x = Standardised(nothing, place=True)
                trunk = LearntTrunk(self.structure, x, SmallNetwork(D, P, WIDTH, None))
            else:
                trunk = trunk_of(self.structure)
            along = trunk(nothing)
            features = Features(nothing, along)
            width = features(nothing, along).shape[1]
        head: ValueHead | ClassHead = ValueHead(width, P, trunk.noise.weights, 1.0)
        if self.classes is not None:
            head = ClassHead(width, torch.zeros(self.classes, P))
        own, one = torch.zeros(D), torch.ones(P if self.classes is None else 0)
        tail = torch.zeros(4, P) if self.long_tailed else None
        scaling = Scaling(own, own, one, one, tail) if self.scaled else None
        student = Student(trunk, features, head.to(dtype), None, scaling).requires_grad_(False).eval()
        self._give(_parts(student))
        student.structure, student.report = self.structure, self.report
        return student

    def _give(self, parts: nn.ModuleList) -> None:
        tensors = list(parts.state_dict().values())
        sizes = [values.numel() for values in tensors]
        if sum(sizes) != len(self.values):
            raise ValueError(f"a saved student must have {sum(sizes)} values, got {len(self.values)}; save it again")
        for own, given in zip(tensors, self.values.split(sizes), strict=True):
            own.copy_(given.view_as(own))


def _parts(student: Student) -> nn.ModuleList:
    """What is not made again from the deep GP."""
    means = [student.trunk.x, student.trunk.network] if isinstance(student.trunk, LearntTrunk) else []
    parts = (student.features, student.head, student.scaling, *means)
    return nn.ModuleList(part for part in parts if part is not None)


def _values(parts: nn.ModuleList) -> Float64[Tensor, " numbers"]:
    return torch.cat([values.detach().cpu().double().flatten() for values in parts.state_dict().values()])
