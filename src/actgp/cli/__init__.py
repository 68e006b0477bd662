"""The command line. It needs the extra `cli`."""

try:
    from actgp.cli.app import app, main
except ModuleNotFoundError as error:
    raise SystemExit(
        f"the command line needs {error.name}, which is not installed; install it with: pip install 'actgp[cli]'"
    ) from error

__all__ = ["app", "main"]
