"""The library as it is installed: built, checked, and tested beside the oldest and the newest releases it supports.

`make versions` runs all sessions whose interpreters are at hand; uv fetches the others where it may.
"""

from pathlib import Path

import nox

nox.options.default_venv_backend = "uv"

TOOLS = ("beartype", "hypothesis", "polars", "pytest>=8", "pytest-xdist")
# Everything but BoTorch's model, students, and what is about the repository rather than the library.
PARTS = ("activations", "convert", "estimators", "features", "fused", "kernels", "layers", "likelihoods", "models")
PARTS += ("persistence", "sphere", "tables", "tabular", "training", "uncertain", "weights")
PARTS += ("test_autocast.py", "test_cli.py", "test_linalg.py")
LEFT_OUT = ("models/test_onnx.py", "tabular/test_page.py")  # ONNX; a browser
RELEASES = [("3.11", "lowest-direct"), *((python, "highest") for python in ("3.11", "3.12", "3.13", "3.14"))]


@nox.session
def dist(session: nox.Session) -> None:
    """Builds the distributions, and checks what they say and what is in them."""
    session.install("build", "twine", "hatchling")
    folder = Path(session.create_tmp())
    session.run("python", "-m", "build", "--no-isolation", "--outdir", str(folder), ".")
    session.run("twine", "check", "--strict", *map(str, folder.glob("actgp-*")))
    session.run("python", "tests/distributions.py", str(folder))


@nox.session
@nox.parametrize(("python", "resolution"), RELEASES)
def core(session: nox.Session, resolution: str) -> None:
    """The tests of the library, installed from its wheel, with the oldest or the newest of what it needs."""
    folder = session.create_tmp()
    session.run("uv", "build", "--wheel", "--out-dir", folder, ".", external=True, silent=True)
    wheel = max(Path(folder).glob("actgp-*.whl"), key=lambda path: path.stat().st_mtime)
    # By the project's own list: of a wheel's requirements, which are not direct ones, uv would take the newest.
    session.install("--resolution", resolution, "--requirement", "pyproject.toml", "--extra", "cli")
    session.install("--no-deps", "--reinstall", str(wheel))
    session.install(*TOOLS)
    chosen = session.posargs or [f"tests/{part}" for part in PARTS]
    # Shapes in signatures, and warnings of other releases, are for the development environment to look at.
    options = (
        "-q",
        "--override-ini=addopts=",
        "--override-ini=filterwarnings=default",
        *(f"--ignore=tests/{path}" for path in LEFT_OUT),
    )
    session.run("pytest", *options, *chosen, env={"OMP_NUM_THREADS": "1"})
    if resolution == "lowest-direct":  # and the test files that need likelihoods of counts, which gpytorch 1.14 has not
        session.install("gpytorch==1.15")
        session.run("pytest", *options, *chosen, env={"OMP_NUM_THREADS": "1"})
