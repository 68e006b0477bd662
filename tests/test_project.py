"""What is said about the project, in several places, is said alike."""

import re
import tomllib
from pathlib import Path

import yaml

import actgp

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_one_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert actgp.__version__ == PROJECT["version"] == citation["version"]
    assert f"## {actgp.__version__.removesuffix('.dev0')}" in (ROOT / "CHANGELOG.md").read_text()


def test_workflows_run_targets_and_sessions_that_exist() -> None:
    steps = [
        step["run"]
        for path in WORKFLOWS
        for job in yaml.safe_load(path.read_text())["jobs"].values()
        for step in job["steps"]
        if "run" in step
    ]
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    sessions = set(re.findall(r"^def (\w+)\(session", (ROOT / "noxfile.py").read_text(), re.MULTILINE))
    for step in steps:
        assert set(re.findall(r"^make (\w+)", step)) <= targets
        assert set(re.findall(r"--session (\w+)", step)) <= sessions


def test_the_supported_pythons_are_tried() -> None:
    stated = {c.rpartition(" ")[2] for c in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", c)}
    assert set(re.findall(r'"(3\.\d+)"', (ROOT / "noxfile.py").read_text())) == stated
    assert set(re.findall(r"core\(python='(3\.\d+)'", (ROOT / ".github/workflows/ci.yml").read_text())) == stated
