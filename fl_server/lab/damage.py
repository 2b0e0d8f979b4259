"""Damage as a power cut leaves it: a file that is torn, empty or has rotten bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def damage(path: Path, rng: np.random.Generator) -> str:
    """Damage one file; returns how."""
    data = bytearray(path.read_bytes())
    how = ("torn", "emptied", "rotten")[int(rng.integers(3))]
    if how == "torn":
        data = data[: len(data) // 2]
    elif how == "emptied":
        data = bytearray()
    elif data:
        data[int(rng.integers(len(data)))] ^= 0xFF
    path.write_bytes(data)
    return how


def server_file(run: Path) -> Path | None:
    """The newest checkpoint (if there is an older one to go back to), or a safe update."""
    checkpoints = sorted((run / "checkpoints").glob("round-*.safetensors"))
    updates = sorted((run / "journal").glob("round-*/client-*.safetensors"))
    if updates:
        return updates[-1]
    return checkpoints[-1] if len(checkpoints) > 1 else None


def board_file(state: Path, round_number: int) -> Path | None:
    """A snapshot of the open round: it can be computed again."""
    found = sorted(state.glob(f"runs/*/client-*/round-{round_number:06d}"))
    return found[-1] if found else None
