"""Writes the readings of four boards: `python examples/own/sensors/make_readings.py`.

The power that a heat pump takes depends on the air, the hour and where it stands. The four
boards are in different climates, so no board alone has seen everything.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

SITES = ("roof", "yard", "cellar")
CLIMATES = (-5.0, 5.0, 14.0, 24.0)  # mean temperature of each board, in degrees Celsius
READINGS = 150


def lines_of(board: int) -> list[str]:
    """The readings of one board as lines of a CSV file."""
    rng = np.random.default_rng(board)
    lines = ["temperature,humidity,hour,site,power_kw"]
    for _ in range(READINGS):
        hour, site = int(rng.integers(24)), int(rng.integers(3))
        warm = CLIMATES[board] + 4 * math.sin((hour - 9) / 24 * 2 * math.pi) + rng.normal(0, 3)
        humid = float(np.clip(rng.normal(65 - warm / 2, 10), 5, 100))
        power = 3.2 - 0.09 * warm + 0.004 * humid + 0.4 * site + rng.normal(0, 0.1)
        lines.append(f"{warm:.1f},{humid:.0f},{hour},{SITES[site]},{max(power, 0.2):.2f}")
    return lines


def main() -> None:
    """Write `boards/<client>/readings.csv` beside this file."""
    for board in range(len(CLIMATES)):
        path = Path(__file__).parent / "boards" / str(board) / "readings.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines_of(board)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
