"""What an ONNX file gives is what the model gives, in batches of any size; bad rows behave as the docs say."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from gpytorch.kernels import MaternKernel, ScaleKernel
from torch import Tensor, nn

import actgp
from actgp.distil.matern import Matern


def session(path: Path) -> Any:
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def test_a_student_runs_in_onnx(student: actgp.Student, rows: Tensor, tmp_path: Path) -> None:
    path = tmp_path / "student.onnx"
    exported = actgp.export(student, path, rows, level=0.9)
    assert exported.difference < 1e-5
    assert exported.inputs == {"X": ("rows", 3)}
    running, many = session(path), rows[torch.arange(10_000) % 300]
    wanted = student.predict(many)
    lower, upper = wanted.interval(0.9)
    by_name = {"mean": wanted.mean, "std": wanted.std, "epistemic_std": wanted.epistemic_std}
    by_name |= {"lower": lower, "upper": upper}
    for size in (1, 7, 10_000):
        found = running.run(list(by_name), {"X": many[:size].numpy()})
        for values, own in zip(found, by_name.values(), strict=True):
            np.testing.assert_allclose(values, own[:size].numpy(), rtol=1e-5, atol=1e-5)
    bad = rows[:3].clone()
    bad[1, 2] = float("nan")
    (mean,) = running.run(["mean"], {"X": bad.numpy()})
    assert np.isnan(mean).tolist() == [False, True, False]
    with pytest.raises(Exception, match="Got invalid dimensions for input: X") as refusal:
        running.run(["mean"], {"X": rows[:, :2].numpy()})
    assert "Got: 2 Expected: 3" in str(refusal.value)


def test_the_exact_deep_gp_runs_in_onnx(deep: actgp.DeepGP, rows: Tensor, tmp_path: Path) -> None:
    path = tmp_path / "exact.onnx"
    actgp.export(deep, path, rows, num_samples=3)
    prediction = deep.predict(rows, 3)
    lower, upper = prediction.interval(0.95)
    names = ["mean", "std", "epistemic_std", "lower", "upper"]
    wanted = (prediction.mean, prediction.variance.sqrt(), prediction.epistemic.sqrt(), lower, upper)
    for values, own in zip(session(path).run(names, {"X": rows.numpy()}), wanted, strict=True):
        np.testing.assert_allclose(values, own.numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("of", ["column", "row", "softened classes"])
def test_converted_networks_run_in_onnx(of: str, rows: Tensor, tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 3 if of == "softened classes" else 1)).double()
    network = nn.Sequential(network, nn.Flatten(0)) if of == "row" else network
    y = network(rows).detach()
    targets = y.argmax(1).roll(7) if of == "softened classes" else y + 0.1 * torch.randn_like(y)
    model, _ = actgp.convert(network, rows, targets, num_inducing=10)
    if of == "softened classes":
        softening = actgp.soften(model, rows, targets)
        assert softening.strength > 0
    actgp.fit(model, rows, targets, progress=False)
    assert actgp.export(model, tmp_path / "model.onnx", rows).difference < 1e-5


def test_what_is_not_the_models_is_not_kept(
    student: actgp.Student, rows: Tensor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "student.onnx"
    module = importlib.import_module("actgp.distil.export")  # whose name in the package is the function's
    monkeypatch.setattr(module, "_write", lambda module, rows, names, draft: draft.write_bytes(b"a draft"))
    monkeypatch.setattr(module, "_tried", lambda *arguments: 1.0)
    with pytest.raises(RuntimeError, match="must give the model's numbers to 1e-05, got a difference of 1, and it was"):
        actgp.export(student, path, rows)
    assert list(tmp_path.iterdir()) == []


def test_refusals(deep: actgp.DeepGP, rows: Tensor, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    with pytest.raises(ValueError, match="level must lie between 0 and 1, got 1; pass"):
        actgp.export(deep, path, rows, level=1)
    with pytest.raises(TypeError, match="X must be a tensor of rows that the model takes, .N, …., got list; pass"):
        actgp.export(deep, path, [1.0])
    gpr = actgp.GPR(rows[:20], rows[:20, 0], actgp.ArcCosine(3).double())
    with pytest.raises(TypeError, match="model must be a student, a DeepGP or an estimator with one, got GPR; export"):
        actgp.export(gpr, path, rows)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
@pytest.mark.parametrize("scaled", [True, False])
def test_matern_kernels(nu: float, scaled: bool, rows: Tensor) -> None:
    kernel: Any = MaternKernel(nu, ard_num_dims=3)
    kernel.lengthscale = torch.tensor([[0.5, 1.0, 3.0]])
    if scaled:
        kernel = ScaleKernel(kernel)
        kernel.outputscale = 2.5
    kernel = kernel.double()
    with torch.no_grad():
        wanted = kernel(rows, rows[:20]).to_dense()
    torch.testing.assert_close(Matern(kernel, rows[:20])(rows), wanted, rtol=1e-6, atol=1e-7)


def test_rows_in_single_precision(student: actgp.Student, rows: Tensor, tmp_path: Path) -> None:
    """As browsers and most services hold them; what lies between is computed in double precision."""
    path = tmp_path / "student.onnx"
    assert actgp.export(student, path, rows.float()).difference < 1e-5
    running, wanted = session(path), student.predict(rows)
    lower, upper = wanted.interval()
    for name, own in {"mean": wanted.mean, "std": wanted.std, "lower": lower, "upper": upper}.items():
        (found,) = running.run([name], {"X": rows.float().numpy()})
        assert found.dtype == np.float32
        off = np.abs(found - own.numpy()) / wanted.std.numpy()
        assert off.max() < 1e-4
    bad = rows[:2].float()
    bad[1, 0] = float("nan")
    for values in running.run(None, {"X": bad.numpy()}):
        unusable = np.isnan(values.reshape(-1, 2))
        assert not unusable[:, 0].any()
    assert np.isnan(running.run(["std"], {"X": bad.numpy()})[0]).tolist() == [False, True]
    with pytest.raises(
        Exception, match="Unexpected input data type. Actual: .tensor.double.. , expected: .tensor.float"
    ):
        running.run(["mean"], {"X": rows.numpy()})


@pytest.mark.filterwarnings("ignore::actgp.FidelityWarning")
def test_a_student_of_an_exact_gp_does_not_see_round_off(rows: Tensor, tmp_path: Path) -> None:
    """At rows that it knows no variance is left: what is computed of it is round-off, another one in each program."""
    rows = rows[:60]
    layer = actgp.GPLayer(ScaleKernel(MaternKernel(2.5, ard_num_dims=3)), actgp.InducingPoints(rows), 1)
    model = actgp.DeepGP([layer], actgp.ContaminatedGaussianLikelihood()).double()
    student = actgp.distill(model, rows, num_places=300, num_steps=20)
    assert actgp.export(student, tmp_path / "student.onnx", rows).difference < 1e-5
