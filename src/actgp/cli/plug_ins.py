"""Commands of other distributions: entry points of the group `actgp.commands`."""

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer

PLUG_INS = "actgp.commands"


def add_plug_ins(app: typer.Typer) -> None:
    """Adds them, each of which is a function with typer's annotations, or a `typer.Typer`.

    One that cannot be loaded says so when it is called, and leaves the others alone.
    """
    for entry in sorted(entry_points(group=PLUG_INS), key=lambda entry: entry.name):
        _add(app, entry)


def _add(app: typer.Typer, entry: EntryPoint) -> None:
    try:
        command: Any = entry.load()
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=entry.name)
        elif callable(command):
            app.command(entry.name)(command)
        else:
            raise TypeError(f"expected a function or a typer.Typer, got {type(command).__name__}")
    except Exception as error:  # whatever another distribution's modules raise when they are imported
        anything = {"allow_extra_args": True, "ignore_unknown_options": True}
        app.command(entry.name, context_settings=anything)(_broken(entry, error))


def _broken(entry: EntryPoint, error: Exception) -> Callable[[], None]:
    origin = entry.dist.name if entry.dist is not None else entry.value

    def broken() -> None:
        raise typer.BadParameter(
            f"the command {entry.name} must be loaded from {entry.value}, got {type(error).__name__}: {error}; "
            f"reinstall {origin}, or uninstall it"
        ) from error

    broken.__doc__ = f"(Cannot be loaded from {origin}; call it to see why.)"
    return broken
