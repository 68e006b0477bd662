"""JavaScript gives what the student gives."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import actgp
from actgp.distil import javascript

ROOT = Path(__file__).parents[2]
node = pytest.mark.skipif(shutil.which("node") is None, reason="node runs JavaScript")
SAY = "console.log(JSON.stringify(rows.map((x) => {const said = student.predict(x); return {said, ends: %s}})))"


def said_by(student: actgp.Student, rows: Tensor, ends: str = "student.interval(said, 0.9)") -> list[Any]:
    script = f"{javascript(student)}\nconst rows = {json.dumps(rows.tolist())};\n{SAY % ends}"
    ran = subprocess.run(["node", "-"], input=script, check=True, capture_output=True, text=True)
    found: list[Any] = json.loads(ran.stdout)
    return found


@node
def test_a_student_of_real_targets(student: actgp.Student, rows: Tensor) -> None:
    X = torch.cat([rows[:3], 100 * rows[:3]])
    wanted = student.predict(X)
    lower, upper = wanted.interval(0.9)
    found = said_by(student, X)
    for i, each in enumerate(found):
        for name in ("mean", "std", "epistemic_std", "aleatoric_std"):
            np.testing.assert_allclose(each["said"][name], [getattr(wanted, name)[i]], rtol=1e-9)
        np.testing.assert_allclose(np.array(each["said"]["weights"])[:, 0], wanted.weights[:, i], rtol=1e-9)
        ends = [each["ends"]["lower"][0], each["ends"]["upper"][0]]
        np.testing.assert_allclose(ends, [lower[i], upper[i]], atol=1e-5 * wanted.std[i].item())


@node
@pytest.mark.filterwarnings("ignore::actgp.FidelityWarning")
def test_a_student_of_classes(classifier: actgp.DeepGP, rows: Tensor) -> None:
    student = actgp.distill(classifier, rows, num_places=200, num_steps=10)
    wanted = student.predict(rows[:4])
    for i, each in enumerate(said_by(student, rows[:4], "null")):
        np.testing.assert_allclose(each["said"]["probabilities"], wanted.probabilities[i], rtol=1e-6)
        np.testing.assert_allclose(each["said"]["epistemic_std"], wanted.epistemic_std[i], rtol=1e-6)


@node
def test_bad_rows(student: actgp.Student) -> None:
    script = f"{javascript(student, 'mine')}\nconst said = mine.predict([0, NaN, 1]);\n"
    script += "let refusal; try { mine.predict([1, 2]) } catch (error) { refusal = error.message }\n"
    script += "console.log(JSON.stringify([Number.isNaN(said.mean[0]), mine.numInputs, refusal]))"
    ran = subprocess.run(["node", "-"], input=script, check=True, capture_output=True, text=True)
    refusal = "x must have 3 numbers, got 2; pass one for each column"
    assert json.loads(ran.stdout) == [True, 3, refusal]


@node
@pytest.mark.filterwarnings("ignore::actgp.FidelityWarning")
def test_what_the_docs_show(generator: torch.Generator) -> None:
    shown = re.search(r"```js\n(.*?)```", (ROOT / "docs" / "deploy.md").read_text(), re.DOTALL)
    assert shown is not None
    X = torch.rand(60, 2, generator=generator, dtype=torch.float64)
    model = actgp.deep_gp(2, num_layers=1, num_inducing=8, generator=generator).double()
    script = javascript(actgp.distill(model, X, num_places=100, num_steps=10))
    ran = subprocess.run(
        ["node", "-"],
        input=f"{script}\n{shown[1]}\nconsole.log(lower[0] < said.mean[0] && said.mean[0] < upper[0])",
        check=True,
        capture_output=True,
        text=True,
    )
    assert ran.stdout == "true\n"


def test_refusals(student: actgp.Student) -> None:
    with pytest.raises(TypeError, match="student must be a student without a backbone, got int; use actgp.distill"):
        javascript(3)
    behind = actgp.Student(student.trunk, student.features, student.head, torch.nn.Identity())
    with pytest.raises(TypeError, match="got one with a backbone"):
        javascript(behind)
    sorting = actgp.Student(student.trunk, student.features, student.head)
    sorting.head = Sorted(student.head)
    with pytest.raises(TypeError, match="operations that JavaScript has here, got sort; use actgp.export"):
        javascript(sorting)


class Sorted(torch.nn.Module):
    def __init__(self, head: torch.nn.Module) -> None:
        super().__init__()
        self.head = head

    def forward(self, *given: Any) -> Any:
        said = self.head(*given)
        return said._replace(means=said.means.sort(0).values)
