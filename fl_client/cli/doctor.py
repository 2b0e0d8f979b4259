"""fl-client doctor: is this board fit for experiments, and if not, what to do."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from common.errors import BrokerError
from common.wire.paho_link import PahoLink
from fl_client.cli.options import board_options, host_name, settings_from, state_folder
from fl_client.doctor.examine import examine, examine_machine
from fl_client.doctor.findings import Finding, judge_enrolment, judge_search, worst
from fl_client.hardware.capacity import usual_workers

MARKS = {"ok": ("ok", "green"), "warning": ("warn", "yellow"), "failed": ("FAIL", "red")}


@click.command()
@board_options
@click.option("--experiment", type=click.Path(path_type=Path), metavar="FILE",
              help="Look for the data that this experiment needs.")  # fmt: skip
@click.option("--quick", is_flag=True,
              help="Leave out torch, which takes seconds: for health checks.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def doctor(experiment: Path | None, quick: bool, as_json: bool, **options: Any) -> None:  # noqa: ANN401 - click has checked them
    """Check this board, and show what to do about anything that is wrong.

    Takes the same options as 'fl-client run'; a running daemon is not disturbed. Without
    credentials and clients it checks the machine alone, and tells the next step. Exit code 1 if
    something is wrong that would keep this board from taking part.

    \b
    Examples:
      fl-client doctor
      fl-client doctor --credentials pi-1.toml
    """
    findings = []
    for finding in _findings(experiment, options, with_torch=not quick):
        findings.append(finding)
        if not as_json:
            _show(finding)
    if as_json:
        click.echo(msgspec.json.encode({"worst": worst(findings), "findings": findings}))
    sys.exit(worst(findings) == "failed")


def _findings(
    experiment: Path | None, options: dict[str, Any], *, with_torch: bool
) -> Iterator[Finding]:
    enrolled = options["credentials"] is not None or options["clients"] is not None
    last = judge_enrolment(options["board"] or host_name())
    try:
        settings = settings_from(**options) if enrolled else None
    except BrokerError as error:  # none was found where one was to be looked for
        settings, last = None, judge_search(str(error))
    if settings is None:
        state, workers = state_folder(**options), options["workers"] or usual_workers(1)
        yield from examine_machine(state, workers, with_torch=with_torch)
        yield last
        return
    yield from examine(settings, experiment, PahoLink(settings.address), with_torch=with_torch)


def _show(finding: Finding) -> None:
    mark, colour = MARKS[finding.level]
    click.echo(f"{click.style(f'{mark:4}', fg=colour)}  {finding.check:<11}  {finding.found}")
    if finding.advice:
        click.echo(f"      {'':<11}  -> {finding.advice}")
