"""python -m bench: measure rows, print a table, write JSON."""

from __future__ import annotations

import importlib
import json
import os
import platform
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

import click

from bench.figures import Effort, Figure
from bench.table import show
from bench.testbed import ROOT, environment

ROWS = "abcdefgh"


@click.command()
@click.argument("rows", default=ROWS)
@click.option("--small", is_flag=True, help="Try the machinery with few repeats; no JSON.")
@click.option("--out", type=click.Path(path_type=Path), default=ROOT / "docs" / "bench.json",
              help="Where the JSON goes.  [default: docs/bench.json]")  # fmt: skip
@click.option("--minutes", type=float, default=20.0, show_default=True,
              help="No row is begun after this time.")  # fmt: skip
def main(rows: str, small: bool, out: Path, minutes: float) -> None:
    """Measure ROWS (letters, such as "ac"; default: all)."""
    if unknown := set(rows.lower()) - set(ROWS):
        raise click.UsageError(f"no rows {', '.join(sorted(unknown))}; there are {ROWS}")
    os.environ.update(environment())  # the boards of our labs must find `bench.echo`
    started = time.monotonic()
    figures: list[Figure] = []
    for row in sorted(rows.lower()):
        if time.monotonic() - started > minutes * 60:
            click.echo(f"row {row.upper()}: left out, the time is up", err=True)
            continue
        click.echo(f"row {row.upper()} ...", err=True)
        measure = importlib.import_module(f"bench.row_{row}").measure
        with tempfile.TemporaryDirectory(prefix="fedbed-bench-") as folder:
            found = measure(Path(folder), Effort(full=not small))
        for figure in found:
            click.echo(
                f"row {figure.row}: {figure.value} ({figure.must}) {figure.note}", err=True
            )
        figures += found
        if not small:  # after every row: what was measured stays, whatever comes
            out.write_text(_as_json(figures, time.monotonic() - started))
    show(figures)


def _as_json(figures: list[Figure], seconds: float) -> str:
    machine = {"cores": os.cpu_count(), "machine": platform.machine()}
    record = {
        "python": platform.python_version(),
        **machine,
        "seconds": round(seconds),
        "figures": [asdict(figure) for figure in figures],
    }
    return json.dumps(record, indent=1) + "\n"
