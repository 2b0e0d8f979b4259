"""python -m bench.predicted: how long rounds take in virtual time and in a lab, side by side.

Runs examples/demo.toml (small) with every fleet of FLEETS, simulated and in a lab, and writes
the table into docs/fleets.md. The boards mostly wait, so a busy machine does not matter.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import click

from bench.testbed import ROOT

FLEETS = ("equal", "one-slow", "bad-wifi")
PAGE = ROOT / "docs" / "fleets.md"
BEGIN, END = "<!-- predicted -->", "<!-- /predicted -->"
LIMIT = 0.15
SETTINGS = ("data.max_samples=300",)


@dataclass(frozen=True, slots=True)
class Compared:
    """Seconds of the rounds of a fleet; the first has what boards do before they train."""

    fleet: str
    predicted: tuple[float, ...]
    real: tuple[float, ...]

    @property
    def difference(self) -> float:
        """Of the medians, relative to the predicted one."""
        return statistics.median(self.real) / statistics.median(self.predicted) - 1

    @property
    def typical(self) -> float:
        """The median of the differences of single rounds."""
        pairs = zip(self.predicted, self.real, strict=True)
        return statistics.median(abs(real / predicted - 1) for predicted, real in pairs)


def compare(fleet: str, folder: Path, rounds: int) -> Compared:
    """One fleet, simulated and in a lab."""
    found: dict[str, tuple[float, ...]] = {}
    digests = set()
    for command in ("simulate", "lab"):
        name = f"{fleet}-{command}"
        settings = [f"experiment.rounds={rounds}", *SETTINGS]
        subprocess.run(
            [
                *(sys.executable, "-m", "fl_server", command, "examples/demo.toml"),
                *(word for setting in settings for word in ("--set", setting)),
                *("--fleet", f"examples/fleets/{fleet}.toml"),
                *("--run", name, "--runs", str(folder), "--plain"),
            ],
            cwd=ROOT,
            check=True,
            stdout=sys.stderr,
        )
        lines = (folder / name / "metrics.jsonl").read_text().splitlines()
        seconds = [json.loads(line).get("seconds") for line in lines]
        found[command] = tuple(each for each in seconds if each is not None)[1:]
        digests.add((folder / name / "model.safetensors").read_bytes())
    assert len(digests) == 1, f"{fleet}: simulation and lab have different models"
    return Compared(fleet, found["simulate"], found["lab"])


def table(compared: list[Compared]) -> str:
    """For the page."""
    lines = [
        "| fleet | rounds | predicted: median s | in the lab: median s | medians differ by "
        "| single rounds differ by (median) |",
        "|---|---|---|---|---|---|",
    ]
    for one in compared:
        predicted, real = statistics.median(one.predicted), statistics.median(one.real)
        lines.append(
            f"| `examples/fleets/{one.fleet}.toml` | {len(one.real)} | {predicted:.2f} "
            f"| {real:.2f} | {one.difference:+.1%} | {one.typical:.1%} |"
        )
    return "\n".join(lines)


@click.command()
@click.argument("fleets", nargs=-1, type=click.Choice(FLEETS))
@click.option("--rounds", type=click.IntRange(2), default=13, show_default=True)
@click.option("--keep", type=click.Path(path_type=Path), help="Where the runs shall stay.")
def main(fleets: tuple[str, ...], rounds: int, keep: Path | None) -> None:
    """Compare these FLEETS; all of them: write the table into docs/fleets.md."""
    with tempfile.TemporaryDirectory(prefix="fedbed-predicted-") as folder:
        compared = [compare(f, keep or Path(folder), rounds) for f in fleets or FLEETS]
    text = table(compared)
    click.echo(text)
    if not fleets:
        page = PAGE.read_text(encoding="utf-8")
        before, _, rest = page.partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}", "utf-8")
    if any(abs(one.difference) > LIMIT for one in compared):
        raise SystemExit(f"more than {LIMIT:.0%} between a prediction and the lab")


if __name__ == "__main__":
    main()
