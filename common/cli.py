"""What the three commands share: errors as one line and an exit code, version, logging."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from common import VERSION
from common.errors import FedbedError, UsageError

INTERRUPTED = 130
F = TypeVar("F", bound=Callable[..., Any])


class Commands(click.Group):
    """A group of commands whose failures are one line on stderr: exit 1 failed, 2 wrong use."""

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's own signature
        """Run a command; show our own errors without a traceback."""
        try:
            return super().invoke(ctx)
        except UsageError as error:
            click.echo(f"error: {error}", err=True)
            ctx.exit(2)
        except FedbedError as error:
            click.echo(f"error: {error}", err=True)
            ctx.exit(1)
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(INTERRUPTED)


def version_option() -> Callable[[F], F]:
    """`--version`, the same for all commands."""
    return click.version_option(VERSION, prog_name="fedbed", message="%(prog)s %(version)s")


def set_up_logging(verbosity: int) -> None:
    """Log to stderr: -1 warnings, 0 the story of a run, 1 every message."""
    level = {-1: logging.WARNING, 0: logging.INFO}.get(verbosity, logging.DEBUG)
    logging.basicConfig(
        level=level,
        stream=sys.stderr,
        format="%(asctime)s %(levelname).1s %(name)s: %(message)s",
        datefmt="%H:%M:%S",
    )
