"""A student is a distribution, says what its teacher says, and knows far from near by construction."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from gpytorch.likelihoods import SoftmaxLikelihood
from torch import Tensor

import actgp
from actgp.distil.layer_pass import MarginalPass
from actgp.distil.shapes import Shape


def test_it_is_faithful(student: actgp.Student) -> None:
    report = student.report
    assert report.weak == ()
    assert "good enough everywhere" in str(report)


def test_its_mixture_is_a_density_whose_moments_are_the_named_outputs(student: actgp.Student, rows: Tensor) -> None:
    said = student.predict(rows[:20])
    y = said.mean + said.std * torch.linspace(-60, 60, 40_001, dtype=torch.float64)[:, None]
    density = torch.stack([said.log_prob(each) for each in y]).exp()
    torch.testing.assert_close(torch.trapezoid(density, y, dim=0), torch.ones(20).double(), rtol=1e-4, atol=0.0)
    mean = (said.weights * said.means).sum(0)
    square = (said.weights * (said.variances + said.means.square())).sum(0)
    torch.testing.assert_close(mean, said.mean)
    torch.testing.assert_close(square - mean.square(), said.std.square())
    lower, upper = said.interval(0.9)
    for end, below in ((lower, 0.05), (upper, 0.95)):
        chance = (said.weights * torch.special.ndtr((end - said.means) / said.variances.sqrt())).sum(0)
        torch.testing.assert_close(chance, torch.full_like(chance, below), rtol=0.0, atol=1e-5)


def test_the_epistemic_variance_never_falls_below_the_closed_form(deep: actgp.DeepGP, student: actgp.Student) -> None:
    g = torch.Generator().manual_seed(3)
    X = 10 ** (4 * torch.rand(500, 1, generator=g, dtype=torch.float64)) * torch.randn(500, 3, generator=g).double()
    h, layer = deep.hidden_means(X)[-1], deep.gp_layers[-1]
    bound = layer.unexplained(h) * layer.kernel(h, diag=True).detach()
    variance = student.predict(X).epistemic_std.square()
    assert 0 < student.head.floor <= 1
    assert (variance >= student.head.floor * bound * (1 - 1e-6)).all()
    ray = torch.tensor([[10.0], [1e2], [1e3], [1e4]], dtype=torch.float64) * torch.randn(1, 3, generator=g).double()
    stds = student.predict(ray).epistemic_std
    assert (stds[1:] > 2 * stds[:-1]).all()


def test_a_pass_of_a_layer_is_the_layer(deep: actgp.DeepGP, rows: Tensor) -> None:
    layer = deep.gp_layers[0]
    found = layer.constants().whitening
    with torch.no_grad():
        passed = MarginalPass(layer, found, layer.q.scale_tril)(rows)
        mean, variance = layer(rows)
    torch.testing.assert_close(passed.mean, mean)
    torch.testing.assert_close(passed.unexplained[:, None] + passed.explained, variance)


@pytest.mark.parametrize("kernel", [actgp.ArcCosine(4), actgp.ArcCosine(4, order=0), actgp.ZonalMatern(4)])
def test_a_shape_is_the_kernels(kernel: actgp.ZonalKernel) -> None:
    t = torch.linspace(-1, 1, 777, dtype=torch.float64)
    for dtype, error in ((torch.float32, 1e-6), (torch.float64, 1e-12)):
        found = Shape(kernel, dtype)(t.to(dtype))
        wanted = kernel.double().shape(t.to(dtype).double())
        torch.testing.assert_close(found.double(), wanted, rtol=0.0, atol=error)


def test_classes_are_learnt_and_forgotten_far_away(classifier: actgp.DeepGP, rows: Tensor) -> None:
    student = actgp.distill(classifier, rows, num_places=2_000, num_steps=300)
    said, prediction = student.predict(rows), classifier.predict(rows)
    torch.testing.assert_close(said.probabilities.sum(1), torch.ones(300).double())
    assert (said.probabilities - prediction.probabilities).abs().mean() < 0.02
    assert (said.epistemic_std <= 0.5).all()
    far = student.predict(1e5 * rows).probabilities
    assert (far - 1 / 3).abs().max() < 0.1


def test_any_model_of_normals_has_a_student_and_a_warning_says_if_it_is_a_bad_one(rows: Tensor, tmp_path: Path) -> None:
    X = rows[:100]
    teacher = actgp.GPR(X, X[:, 0], actgp.ArcCosine(3).double())
    with pytest.warns(actgp.FidelityWarning, match="a student should be faithful to its teacher, got NLPD higher by"):
        student = actgp.distill(teacher, X, num_places=50, num_steps=1)
    assert student.predict(X).mean.shape == (100,)
    student.save(tmp_path / "student.actgp")
    assert torch.equal(actgp.load(tmp_path / "student.actgp").predict(X).mean, student.predict(X).mean)


def test_a_file_gives_the_student_back(student: actgp.Student, rows: Tensor, tmp_path: Path) -> None:
    path = tmp_path / "student.actgp"
    student.save(path)
    loaded = actgp.load(path)
    assert loaded.report == student.report
    for own, other in zip(student(rows), loaded(rows), strict=True):
        assert torch.equal(own, other)


def test_a_report_says_what_is_not_good_enough(student: actgp.Student) -> None:
    bad = replace(student.report, divergence=0.5, coverage=0.2, near=0.1, far=float("nan"))
    assert len(bad.weak) == 4
    assert str(bad).count("NOT GOOD ENOUGH") == 4
    assert "NLPD higher by 0.500 nats, more than 0.02" in str(bad)


def test_refusals(deep: actgp.DeepGP, student: actgp.Student, rows: Tensor) -> None:
    with pytest.raises(TypeError, match="model must be a model or an estimator of actgp, got int; pass"):
        actgp.distill(3, rows)
    with pytest.raises(ValueError, match="X must have at least 10 rows to learn from, got 5; pass more"):
        actgp.distill(deep, rows[:5])
    with pytest.raises(ValueError, match="y must have the shape of the means, .20., got .3.; reshape it"):
        student.predict(rows[:20]).log_prob(torch.zeros(3))
    with pytest.raises(ValueError, match="level must lie between 0 and 1, got 2; pass"):
        student.predict(rows[:20]).interval(2)
    with pytest.raises(ValueError, match="X must be finite"):
        student.predict(torch.full((2, 3), float("nan"), dtype=torch.float64))
    mixed = actgp.deep_gp(3, 3, 1, 8, likelihood=SoftmaxLikelihood(num_classes=3, num_features=3, mixing_weights=True))
    with pytest.raises(TypeError, match="Bernoulli likelihoods of one output and with softmax without mixing weights"):
        actgp.export(mixed, "never.onnx", rows.float())
