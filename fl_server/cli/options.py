"""What several commands of fl-server have in common: arguments and options."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import click

from common.config import Experiment
from common.errors import UsageError
from common.experiment.resolve import participants_of
from common.program.cli import log_options, set_up_logging
from fl_server import launch
from fl_server.fleet.file import boards_of
from fl_server.run.fleet import read_fleet
from fl_server.run.metrics.tensorboard import check_tensorboard
from fl_server.run.provenance import Start
from fl_server.watch.displays import Style
from fl_server.web.address import read_page_address
from fl_server.web.site import Site

F = TypeVar("F", bound=Callable[..., Any])


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator."""

    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def complete_run(context: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """The runs whose names begin so, for the shell's completion."""
    runs = Path(context.params.get("runs") or "runs")
    names = sorted(path.parent.name for path in runs.glob("*/experiment.toml"))
    return [name for name in names if name.startswith(begun)]


run_argument = click.argument("name", metavar="RUN", shell_complete=complete_run)
experiment_file = click.argument(
    "file", metavar="EXPERIMENT.toml", type=click.Path(path_type=Path)
)
overrides_option = click.option(
    "--set", "overrides", multiple=True, metavar="SECTION.KEY=VALUE",
    help="Change a setting of the file (may be repeated).",
)  # fmt: skip
runs_option = click.option(
    "--runs", type=click.Path(path_type=Path), default="runs", show_default=True,
    metavar="DIR", help="Where run folders are kept.",
)  # fmt: skip
run_option = click.option(
    "--run", "name", metavar="NAME", shell_complete=complete_run,
    help="Name of the run; an unfinished one is resumed.",
)  # fmt: skip
dask_option = click.option(
    "--dask", metavar="ADDRESS",
    help="On a Dask cluster: tcp://HOST:8786, or local:4 for processes of its own.",
)  # fmt: skip
broker_options = together(
    click.option("--broker", metavar="HOST[:PORT]",
                 help="Where the MQTT broker is.  [default: the credentials', or 127.0.0.1]"),
    click.option("--credentials", type=click.Path(path_type=Path), metavar="FILE",
                 help="How to log in, made by 'fl-broker enroll'."),
    click.option("--federation",
                 help="First level of all topics.  [default: the credentials', or fl]"),
)  # fmt: skip
web_option = click.option(
    "--web", is_flag=False, flag_value="127.0.0.1:8765", default=None, metavar="[HOST:PORT]",
    help="Serve a page for browsers; beyond this machine its URL has a token.",
)  # fmt: skip
control_option = click.option(
    "--control", is_flag=True,
    help="Let everyone who has the page's URL pause, resume, stop and submit runs.",
)  # fmt: skip
tokens_option = click.option(
    "--tokens", type=click.Path(path_type=Path), metavar="FILE",
    help="Keep the tokens of the page's URL there: it stays the same after a restart.",
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class PageOptions:
    """Whether a page is wanted, where, and what may be done there."""

    place: str | None
    control: bool
    tokens: Path | None


def page_options(function: F) -> F:
    """What a page is like; the command gets it as `page`."""

    @functools.wraps(function)
    def command(
        *, web: str | None, control: bool, tokens: Path | None, **others: object
    ) -> object:
        if web is None and (control or tokens):
            raise UsageError("--control and --tokens are about the page; serve it with --web")
        return function(page=PageOptions(web, control, tokens), **others)

    return cast("F", together(web_option, control_option, tokens_option)(command))


@contextmanager
def with_page(
    options: launch.RunOptions, page: PageOptions, home: Literal["live", "runs"] = "live"
) -> Iterator[launch.RunOptions]:
    """The same options with a page of all runs, if one is wanted."""
    if page.place is None:
        yield options
        return
    at = read_page_address(page.place, control=page.control, tokens=page.tokens)
    with Site(at, options.runs, home) as site:
        yield dataclasses.replace(options, web=site)


data_option = click.option(
    "--data", type=click.Path(path_type=Path, file_okay=False, exists=True), metavar="FOLDER",
    help="What boards would have: the data of the clients, for data.partition = \"local\".",
)  # fmt: skip


fleet_option = click.option(
    "--fleet", type=click.Path(path_type=Path), metavar="FILE",
    help="Boards and networks as in this file (see docs/fleets.md).",
)  # fmt: skip


PAGE = {"web", "control", "tokens"}
SHOWN = {"runs", "plain", "tensorboard", "record", "verbose", "quiet", "log_format"}
_OF_THE_RUN = {"file", "overrides", "name"}  # its folder has them


def started_by(context: click.Context) -> Start:
    """A command and what it was given, apart from how a run is shown and what it is."""
    command = context.command.name or ""
    left_out = (SHOWN - {"runs"}) | PAGE
    if command in ("run", "lab", "simulate"):
        left_out |= {"runs", *_OF_THE_RUN}
    words: list[str] = []
    for parameter in context.command.params:
        value = None if parameter.name in left_out else context.params.get(str(parameter.name))
        if value is None or value is False:
            continue
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(parameter, click.Option):
                words.append(parameter.opts[0])
            if one is not True:
                words.append(str(one.absolute() if isinstance(one, Path) else one))
    return Start(command, tuple(words))


def run_options(function: F) -> F:
    """Where runs are kept and how they are shown; the command gets it as `options`."""
    plain = click.option("--plain", is_flag=True, help="Lines instead of the live screen.")
    board = click.option("--tensorboard", is_flag=True,
                         help="Also write event files for TensorBoard.")  # fmt: skip

    record = click.option("--record", type=click.Path(path_type=Path), metavar="FILE",
                          help="Record every event, for 'fl-server replay'.")  # fmt: skip

    @functools.wraps(function)
    def command(
        *,
        runs: Path,
        plain: bool,
        tensorboard: bool,
        record: Path | None,
        verbose: int,
        quiet: bool,
        log_format: str,
        **others: object,
    ) -> object:
        if verbose or log_format == "json":  # else the display shows what happens
            set_up_logging(verbose - 1, log_format)
        if tensorboard:
            check_tensorboard()
        style: Style = "json" if log_format == "json" else "plain" if plain else "screen"
        options = launch.RunOptions(
            runs,
            "quiet" if quiet and style != "json" else style,
            tensorboard,
            record,
            start=started_by(click.get_current_context()),
        )
        return function(options=options, **others)

    return cast("F", together(runs_option, plain, board, record, log_options)(command))


def with_fleet(
    options: launch.RunOptions, experiment: Experiment, path: Path | None
) -> launch.RunOptions:
    """The options with the fleet of a file, if one is given."""
    if path is None:
        return options
    fleet = read_fleet(path)
    boards_of(fleet, participants_of(experiment))  # before a run folder is made
    return dataclasses.replace(options, fleet=fleet)
