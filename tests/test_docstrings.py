"""Every public name says what it is, what it takes and gives, and shows an example, which is run here."""

import doctest
import inspect
import re
from typing import Any

import pytest
import torch

import actgp

PUBLIC: dict[str, Any] = {f"actgp.{name}": getattr(actgp, name) for name in actgp.__all__}
botorch = pytest.importorskip("actgp.botorch")
PUBLIC |= {f"actgp.botorch.{name}": getattr(botorch, name) for name in botorch.__all__}
each = pytest.mark.parametrize("name", PUBLIC)


def is_warning(thing: object) -> bool:
    return isinstance(thing, type) and issubclass(thing, Warning)


@each
def test_arguments_and_results_are_described(name: str) -> None:
    thing = PUBLIC[name]
    said = inspect.getdoc(thing) or ""
    assert said, f"{name} has no docstring"
    if is_warning(thing):
        return
    signature = inspect.signature(thing)
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    for parameter in signature.parameters.values():
        described = re.search(rf"^    {parameter.name}: ", said, re.MULTILINE)
        assert described or parameter.kind in several, f"{name} does not describe {parameter.name}"
    if inspect.isfunction(thing) and signature.return_annotation not in (None, "None"):
        assert "\nReturns:\n" in said, f"{name} does not say what it returns"


@each
def test_public_members_are_described(name: str) -> None:
    thing = PUBLIC[name]
    for member, value in vars(thing).items() if inspect.isclass(thing) else ():
        if (
            not member.startswith("_")
            and member != "config"
            and (inspect.isfunction(value) or isinstance(value, property))
        ):
            assert inspect.getdoc(getattr(thing, member)), f"{name}.{member} has no docstring"


@each
@pytest.mark.filterwarnings("ignore::actgp.FidelityWarning")  # of students that learn for a moment only
def test_the_example_runs(name: str) -> None:
    said = inspect.getdoc(PUBLIC[name]) or ""
    examples = doctest.DocTestParser().get_doctest(said, {}, name, None, None)
    assert examples.examples, f"{name} shows no example"
    assert "+SKIP" not in said
    torch.manual_seed(0)
    report: list[str] = []
    failures, _ = doctest.DocTestRunner().run(examples, out=report.append)
    assert not failures, "".join(report)
