"""fl-client doctor: is this board fit for experiments, and if not, what to do."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec

from common.wire.paho_link import PahoLink
from fl_client.cli.options import board_options, settings_from
from fl_client.doctor.examine import examine
from fl_client.doctor.findings import Finding, worst

MARKS = {"ok": ("ok", "green"), "warning": ("warn", "yellow"), "failed": ("FAIL", "red")}


@click.command()
@board_options
@click.option("--experiment", type=click.Path(path_type=Path), metavar="FILE",
              help="Look for the data that this experiment needs.")  # fmt: skip
@click.option("--quick", is_flag=True,
              help="Leave out torch, which takes seconds: for health checks.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def doctor(experiment: Path | None, quick: bool, as_json: bool, **options: object) -> None:
    """Check this board, and show what to do about anything that is wrong.

    Takes the same options as 'fl-client run'; a running daemon is not disturbed. Exit code 1 if
    something is wrong that would keep this board from taking part.

    \b
    Example: fl-client doctor --credentials pi-1.toml
    """
    settings = settings_from(**options)  # type: ignore[arg-type]  # click has checked them
    link = PahoLink(settings.address)
    findings = []
    for finding in examine(settings, experiment, link, with_torch=not quick):
        findings.append(finding)
        if not as_json:
            _show(finding)
    if as_json:
        click.echo(msgspec.json.encode({"worst": worst(findings), "findings": findings}))
    sys.exit(worst(findings) == "failed")


def _show(finding: Finding) -> None:
    mark, colour = MARKS[finding.level]
    click.echo(f"{click.style(f'{mark:4}', fg=colour)}  {finding.check:<11}  {finding.found}")
    if finding.advice:
        click.echo(f"      {'':<11}  -> {finding.advice}")
