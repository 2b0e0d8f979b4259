"""What the three commands share: errors as one line and an exit code, version, log options."""

from __future__ import annotations

import io
import logging
import os
import shlex
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from common import VERSION
from common.errors import FedbedError, UsageError
from common.program.logs import FORMATS, make_formatter
from common.texts import escaped

INTERRUPTED = 130
LONGEST_HELP = 500
NEWLINE = "\n"
F = TypeVar("F", bound=Callable[..., Any])


class Commands(click.Group):
    """A group of commands whose failures are one line on stderr: exit 1 failed, 2 wrong use."""

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's own signature
        """Run a command; show our own errors without a traceback."""
        write_any_letter()
        try:
            return super().invoke(ctx)
        except UsageError as error:
            click.echo(f"error: {escaped(str(error), keep=NEWLINE)}", err=True)
            ctx.exit(2)
        except FedbedError as error:
            click.echo(f"error: {escaped(str(error), keep=NEWLINE)}", err=True)
            ctx.exit(1)
        except KeyboardInterrupt as error:
            click.echo(str(error) or "interrupted", err=True)
            ctx.exit(INTERRUPTED)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """All commands with the whole first sentence of their help, wrapped and not cut."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [
            (name, command.get_short_help_str(LONGEST_HELP))
            for name, command in found
            if command is not None and not command.hidden
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def write_any_letter() -> None:
    """A letter that the encoding of the terminal or pipe does not have is written escaped."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def this_command() -> str:
    """The command line as it was typed, to be typed again."""
    program = click.get_current_context().find_root().info_name
    return f"{program} {shlex.join(sys.argv[1:])}"


def version_option() -> Callable[[F], F]:
    """`--version`, the same for all commands."""
    return click.version_option(VERSION, prog_name="fedbed", message="%(prog)s %(version)s")


def log_options(function: F) -> F:
    """`-v`, `-q` and `--log-format`, the same for all commands."""
    verbose = click.option("-v", "--verbose", count=True, help="Log more.")
    quiet = click.option("-q", "--quiet", is_flag=True, help="Only warnings.")
    form = click.option(
        "--log-format", type=click.Choice(FORMATS), default="human", show_default=True,
        help="Lines for people, or one JSON object per line.",
    )  # fmt: skip
    return verbose(quiet(form(function)))


def set_up_logging(verbosity: int, form: str = "human") -> None:
    """Log to stderr: -1 warnings, 0 the course of a run, 1 every message."""
    level = {-1: logging.WARNING, 0: logging.INFO}.get(verbosity, logging.DEBUG)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(make_formatter(form, sys.stderr, os.environ))
    handler.setLevel(level)
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level)
