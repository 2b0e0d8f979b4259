"""python -m bench: run the benchmarks, print a table, write JSON."""

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

BENCHMARKS = (
    "training",
    "rounds",
    "protocol",
    "flower",
    "flower_simulation",
    "memory",
    "bytes",
    "scale",
    "virtual",
    "startup",
    "start",
    "cluster",
    "secure",
)


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(BENCHMARKS))
@click.option("--small", is_flag=True, help="Try the machinery with few repeats; no JSON.")
@click.option("--out", type=click.Path(path_type=Path), default=ROOT / "docs" / "bench.json",
              help="Where the JSON goes.  [default: docs/bench.json]")  # fmt: skip
@click.option("--minutes", type=float, default=20.0, show_default=True,
              help="No benchmark is started after this time.")  # fmt: skip
def main(names: tuple[str, ...], small: bool, out: Path, minutes: float) -> None:
    """Run the benchmarks with these NAMES (default: all)."""
    os.environ.update(environment())  # the boards of our labs must find `bench.echo`
    started = time.monotonic()
    figures: list[Figure] = []
    for name in (name for name in BENCHMARKS if name in (names or BENCHMARKS)):
        if time.monotonic() - started > minutes * 60:
            click.echo(f"{name}: left out, the time is up", err=True)
            continue
        click.echo(f"{name} ...", err=True)
        measure = importlib.import_module(f"bench.{name}").measure
        with tempfile.TemporaryDirectory(prefix="fedbed-bench-") as folder:
            found = measure(Path(folder), Effort(full=not small))
        for figure in found:
            click.echo(f"{name}: {figure.value} ({figure.must}) {figure.note}", err=True)
        figures += found
        if not small:  # after every benchmark: what was measured stays, whatever comes
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
