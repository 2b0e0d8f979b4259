"""What several commands of fl-server have in common: arguments and options."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator."""

    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


experiment_file = click.argument(
    "file", metavar="EXPERIMENT.toml", type=click.Path(path_type=Path)
)
overrides_option = click.option(
    "--set", "overrides", multiple=True, metavar="SECTION.KEY=VALUE",
    help="Change a setting of the file (may be repeated).",
)  # fmt: skip
place_options = together(
    click.option("--runs", type=click.Path(path_type=Path), default="runs", show_default=True,
                 metavar="DIR", help="Where run folders are kept."),
    click.option("--plain", is_flag=True, help="Lines instead of the live screen."),
)  # fmt: skip
run_option = click.option(
    "--run", "name", metavar="NAME", help="Name of the run; an unfinished one is resumed."
)
broker_options = together(
    click.option("--broker", metavar="HOST[:PORT]",
                 help="Where the MQTT broker is.  [default: the credentials', or 127.0.0.1]"),
    click.option("--credentials", type=click.Path(path_type=Path), metavar="FILE",
                 help="How to log in, made by 'fl-broker enroll'."),
    click.option("--federation",
                 help="First level of all topics.  [default: the credentials', or fl]"),
)  # fmt: skip
