"""All commands together."""

from actgp.cli import needed as _needed  # noqa: F401, I001  # before anything that imports what it looks for
from actgp.cli.demo import demo
from actgp.cli.diagnose import diagnose
from actgp.cli.fit import fit
from actgp.cli.plug_ins import add_plug_ins
from actgp.cli.predict import predict
from actgp.cli.show import show

import typer

EXIT_CODES = "Exit codes: 0, done; 1, a defect of actgp; 2, refused, with the reason; 130, interrupted."


def command_line() -> typer.Typer:
    """The whole command line, with the commands that other distributions add."""
    app = typer.Typer(
        help="Activated Gaussian processes: one model that is a network and a Gaussian process.",
        epilog=EXIT_CODES,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
    )
    for command in (fit, predict, show, demo, diagnose):
        app.command()(command)
    add_plug_ins(app)
    return app


def main() -> None:
    """The entry point `actgp`."""
    command_line()(prog_name="actgp")
