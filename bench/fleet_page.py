"""What `bench.fleet` has measured as JSON, as a figure, and as a table in the docs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure as Picture

from bench.testbed import ROOT

NUMBERS = ROOT / "docs" / "fleet.json"
PAGE = ROOT / "docs" / "performance.md"
PICTURE = ROOT / "docs" / "pictures" / "fleet.svg"
BEGIN, END = "<!-- fleet -->\n", "<!-- /fleet -->"
KNEE = 1.5
HEADS = (
    "boards",
    "all connected, s",
    "first round open, s",
    "a round, s",
    "a round, ms per board",
    "coordinator, processor s per round",
    "Mosquitto, processor s per round",
    "coordinator, MB",
    "Mosquitto, MB",
    "sent again",
)


@dataclass(frozen=True, slots=True)
class Row:
    """One size: seconds, processor seconds per round, memory at its highest, and how many
    updates were sent again in all rounds together."""

    boards: int
    connect_seconds: float
    start_seconds: float
    round_seconds: float
    coordinator_cpu: float
    broker_cpu: float
    coordinator_mb: int
    broker_mb: int
    again: int

    @property
    def per_board(self) -> float:
        """Milliseconds of a round for each board."""
        return 1000 * self.round_seconds / self.boards


def knee(rows: Sequence[Row]) -> int | None:
    """The first size beyond the best whose round takes more than KNEE times as long per board
    as at the best one; None if there is none."""
    best = min(rows, key=lambda row: row.per_board)
    beyond = (row.boards for row in rows if row.boards > best.boards)
    slow = {row.boards for row in rows if row.per_board > KNEE * best.per_board}
    return next((size for size in beyond if size in slow), None)


def table(rows: Sequence[Row]) -> str:
    """The rows for the docs, and where the knee is."""
    lines = [f"| {' | '.join(HEADS)} |", f"|{'---|' * len(HEADS)}"]
    for row in rows:
        cells = (
            f"{row.boards:,}",
            f"{row.connect_seconds:.2f}",
            f"{row.start_seconds:.2f}",
            f"{row.round_seconds:.2f}",
            f"{row.per_board:.1f}",
            f"{row.coordinator_cpu:.2f}",
            f"{row.broker_cpu:.2f}",
            f"{row.coordinator_mb}",
            f"{row.broker_mb}",
            f"{row.again}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    found, best = knee(rows), min(rows, key=lambda row: row.per_board)
    where = f"at {found:,} boards" if found else f"not reached with {rows[-1].boards:,} boards"
    text = f"The knee is {where}; a round takes least per board with {best.boards:,}."
    return "\n".join([*lines, "", text, ""])


def read() -> list[Row]:
    """What was measured last."""
    return [Row(**row) for row in json.loads(NUMBERS.read_text())]


def write(rows: Sequence[Row]) -> None:
    """Replace what was measured before, in all three places."""
    NUMBERS.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}{table(rows)}{END}{rest.partition(END)[2]}")
    draw(rows, PICTURE)


def draw(rows: Sequence[Row], path: Path) -> None:
    """Seconds against boards; a line where the knee is."""
    mpl.rcParams["svg.hashsalt"] = "fedbed"
    picture = Picture(figsize=(7, 4), layout="constrained")
    axes = picture.subplots()
    boards = [row.boards for row in rows]
    lines = {
        "start: all connect at once": [row.start_seconds for row in rows],
        "a round, everything on two cores": [row.round_seconds for row in rows],
        "processor time of the coordinator, per round": [row.coordinator_cpu for row in rows],
        "processor time of Mosquitto, per round": [row.broker_cpu for row in rows],
    }
    for name, values in lines.items():
        axes.plot(boards, values, marker="o", label=name)
    if (found := knee(rows)) is not None:
        axes.axvline(found, color="grey", linestyle="--", label=f"the knee: {found:,} boards")
    axes.set(xscale="log", yscale="log", xlabel="boards, all selected", ylabel="seconds")
    axes.set_xticks(boards, [f"{size:,}" for size in boards])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend()
    picture.savefig(path, metadata={"Date": None})
