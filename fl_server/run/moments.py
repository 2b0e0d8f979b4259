"""Virtual time on disk: how everything stood when a round was closed, so that a run can go on.

Written before the checkpoint of its round, and those of the last two rounds are kept: whatever
the newest checkpoint is, there is a moment for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from common.disk.atomic import write_atomic
from common.disk.recording import decoded, encoded
from common.errors import StoreError
from fl_server.fleet.happenings import Saved
from fl_server.rounds.state import State

FOLDER = "virtual"  # in the folder of a run


@dataclass(frozen=True, slots=True)
class Moment:
    """The time, the machine, and what the fleet is about to do."""

    now: float
    state: State
    timeline: Saved


def keep_moment(run: Path, round_number: int, moment: Moment) -> None:
    """Keep it for the checkpoint that follows."""
    folder = run / FOLDER
    folder.mkdir(exist_ok=True)
    write_atomic(_path(folder, round_number), bytes(encoded(moment)))
    for path in folder.glob("*.json"):
        if path.stem < _path(folder, round_number - 1).stem:
            path.unlink()


def read_moment(run: Path, done: int) -> Moment:
    """How everything stood when this round was closed."""
    path = _path(run / FOLDER, done)
    try:
        return decoded(msgspec.Raw(path.read_bytes()), Moment)
    except (OSError, msgspec.DecodeError, KeyError, ValueError) as error:
        raise StoreError(
            f"{path} cannot be read ({error}), so virtual time cannot go on after round "
            f"{done}; start anew under another --run"
        ) from error


def _path(folder: Path, round_number: int) -> Path:
    return folder / f"{round_number:06d}.json"
