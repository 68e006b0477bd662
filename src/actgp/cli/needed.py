"""What the command line needs more than the library: where it is missing, a sentence instead of a traceback."""

import importlib

for name in ("typer", "matplotlib", "pandas", "pyarrow"):
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise SystemExit(
            f"the command line needs {error.name}, which is not installed; install it with: pip install 'actgp[cli]'"
        ) from error
