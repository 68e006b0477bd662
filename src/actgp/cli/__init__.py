"""The command line: one file for each command, and what other distributions add. It needs the extra `cli`."""

from actgp.cli.app import command_line, main
from actgp.cli.terminal import Output, console, make_folder, plainly, tell_written

__all__ = ["Output", "command_line", "console", "main", "make_folder", "plainly", "tell_written"]
