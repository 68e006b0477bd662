"""A student of a model: `distill`."""

import copy
import time
import warnings
from dataclasses import replace
from typing import TypeGuard

import torch
from jaxtyping import Float
from torch import Tensor, nn

from actgp import checks
from actgp.distil.features import Features
from actgp.distil.fidelity import FidelityReport, FidelityWarning, compared
from actgp.distil.heads import ClassHead, ValueHead
from actgp.distil.learn import learn
from actgp.distil.mixed_trunk import nearest_member, trunk_of
from actgp.distil.queries import around, places, set_aside
from actgp.distil.stand_in import stand_in
from actgp.distil.student import AnyTrunk, Student
from actgp.distil.teacher import Answers, Labels, Predicts, Teacher, inside
from actgp.distil.trunk import Along
from actgp.likelihoods import adapter_of
from actgp.models import DeepGP, Mixture

NUM_PLACES, NUM_STEPS, NUM_SAMPLES = 8_000, 1_000, 32
ROWS = 2_048
FEWEST, FEWEST_JUDGED = 10, 200
NOISE = 0.1  # of places beside rows that were kept aside, where these are few
JUDGED_PATHS = 4  # times as many as it teaches with
SEED = 0
PROBIT = 1.6  # Φ(x) ≈ 1 / (1 + exp(−1.6 x))
SMALLEST = 1e-12


def distill(
    model: object,
    X: Tensor,
    *,
    num_places: int = NUM_PLACES,
    num_steps: int = NUM_STEPS,
    num_samples: int | None = None,
    generator: torch.Generator | None = None,
) -> Student:
    """Makes a student of a model: a module whose one pass gives the model's predictive distribution.

    The model, its teacher, is asked for its predictions at the rows, between and around them, and far away. A student
    of a `DeepGP` keeps its composed means and the last layer's distance from what it knows in closed form, one of a
    `Mixture` those of all its members and the distance of one; what is left is learnt. `student.report` says how
    faithful it is at rows that were kept aside; a `FidelityWarning` says where it is not.

    Args:
        model: A fitted model or estimator: one with Gaussian noise, with outliers or without, or of classes.
        X: Rows of data: those that it was trained on, for instance; for an estimator, as it takes them.
        num_places: How many places the teacher is asked at.
        num_steps: Steps of Adam.
        num_samples: The paths that a deep GP predicts with while it teaches; 32, or as many as an estimator has.
        generator: Source of randomness; by default the same for every call.

    Returns:
        The student: a module whose `report` compares it with the model.

    Example:
        >>> import actgp, torch
        >>> X = torch.linspace(-2, 2, 100)[:, None]
        >>> model = actgp.deep_gp(input_dim=1, num_layers=2, num_inducing=10)
        >>> result = actgp.fit(model, X, torch.sin(X[:, 0]), actgp.Recipe(network_steps=50, num_steps=10))
        >>> student = actgp.distill(model, X)
        >>> mean, epistemic_std = student(X).mean, student(X).epistemic_std
    """
    began = time.process_time()
    g = torch.Generator().manual_seed(SEED) if generator is None else generator
    num_places = checks.integer(num_places, "num_places", minimum=FEWEST)
    num_steps = checks.integer(num_steps, "num_steps", minimum=1)
    deep, scaling, own_samples = inside(model)
    paths = checks.integer(num_samples or own_samples or NUM_SAMPLES, "num_samples", minimum=1)
    rows = X if scaling is None else scaling.inputs(X)
    h, backbone, teacher_model = _behind_backbone(deep, rows)
    if len(h) < FEWEST:
        raise ValueError(f"X must have at least {FEWEST} rows to learn from, got {len(h)}; pass more of the data")
    teacher = Teacher(teacher_model, paths)
    learning, aside = set_aside(len(h), g)
    known, asked = h[learning], places(h[learning], num_places, g)
    answers = teacher.ask(asked, g)
    structure: DeepGP | Mixture
    trunk: AnyTrunk
    if _has_trunk(teacher_model):
        structure, trunk = teacher_model, trunk_of(teacher_model)
    else:
        structure, trunk = stand_in(known, asked, answers, num_steps, g)
        known, asked = known.float(), asked.float()
    with torch.no_grad():
        along = _along(trunk, asked)
        features = Features(known, _along(trunk, known))
        seen = features(asked, along)
    head = _head(seen, along, answers, structure, trunk, g)
    learn(head, Along(*(values.float() for values in along)), seen.float(), answers, num_steps, g)
    student = Student(trunk, features, head.to(seen.dtype), backbone, scaling).requires_grad_(False).eval()
    student.structure = copy.deepcopy(structure)
    student.report = _report(student, teacher, h[aside], known, began, g)
    if student.report.weak:
        warnings.warn(
            f"a student should be faithful to its teacher, got {'; '.join(student.report.weak)}; raise num_steps and "
            "num_places, pass more rows of X, or keep to the model itself",
            FidelityWarning,
            stacklevel=2,
        )
    return student


def _has_trunk(model: Predicts) -> TypeGuard[DeepGP | Mixture]:
    return isinstance(model, DeepGP) or (isinstance(model, Mixture) and nearest_member(model) is not None)


@torch.no_grad()
def _behind_backbone(model: DeepGP | Predicts, X: Tensor) -> tuple[Tensor, nn.Module | None, Predicts]:
    """What a model's layers are given, its backbone, and a model of the layers alone."""
    if not isinstance(model, DeepGP):
        return checks.inputs(X, model.input_dim if isinstance(model, Mixture) else X.shape[-1]), None, model
    if model.backbone is None:
        return model.check_inputs(X), None, model  # type: ignore[return-value]  # a tensor, without a backbone
    parts = [model.enter(part) for part in model.rows(X).split(ROWS)]
    alone = DeepGP(model.gp_layers, model.likelihood, keep_column=model.keep_column)
    return torch.cat(parts), copy.deepcopy(model.backbone).eval(), alone


def _along(trunk: AnyTrunk, h: Float[Tensor, "N D"]) -> Along:
    parts = [trunk(part) for part in h.split(ROWS)]
    return Along(*map(torch.cat, zip(*parts, strict=True)))


@torch.no_grad()
def _head(
    seen: Float[Tensor, "N F"],
    along: Along,
    answers: Answers,
    structure: DeepGP | Mixture,
    trunk: AnyTrunk,
    generator: torch.Generator,
) -> ValueHead | ClassHead:
    """A head that begins where closed forms are."""
    if isinstance(answers, Labels):
        return ClassHead(seen.shape[1], _logits(structure, answers.probabilities.shape[1]), generator)
    # c: nearly everywhere the teacher's epistemic variance is at least twice the floor, if c is less than one
    known = answers.epistemic.amin(1, keepdim=True) / along.unexplained.clamp_min(SMALLEST)
    floor = min(1.0, 0.5 * known.quantile(0.01).item())
    head = ValueHead(seen.shape[1], along.mean.shape[1], trunk.noise.weights, floor, generator)
    rest = (answers.epistemic - floor * along.unexplained).clamp_min(SMALLEST) / (along.unexplained + along.explained)
    head.shifts[:, 1] = rest.log().median(0).values
    return head


def _logits(structure: DeepGP | Mixture, num_classes: int) -> Float[Tensor, "C P"]:
    """B: latent functions of a softmax are logits; that of two classes is the second's; others are left to learning."""
    P, likelihood = structure.num_outputs, structure.likelihood
    weights = getattr(likelihood, "mixing_weights", None)
    if weights is not None:
        return weights.detach().float().cpu()
    if num_classes == P:
        return torch.eye(P)
    if P == 1 and num_classes == 2 and adapter_of(likelihood).has_temperature:
        return torch.tensor([[0.0], [PROBIT]])
    return torch.zeros(num_classes, P)


def _report(
    student: Student, teacher: Teacher, aside: Tensor, known: Tensor, began: float, generator: torch.Generator
) -> FidelityReport:
    near = torch.cat([aside, around(aside, max(0, FEWEST_JUDGED - len(aside)), NOISE, generator)])
    far = known.mean(0) + 2 * (near - known.mean(0))
    teacher = replace(teacher, num_samples=JUDGED_PATHS * teacher.num_samples)
    with torch.no_grad():
        divergence, coverage, ranks = compared(
            student.behind(near.to(student.dtype)), teacher.ask(near, generator), generator
        )
        *_, far_ranks = compared(student.behind(far.to(student.dtype)), teacher.ask(far, generator), generator)
    return FidelityReport(len(near), divergence, coverage, ranks, far_ranks, time.process_time() - began)
