"""PURE: facts about a run that somebody paused, let go on, or asked to stop."""

from __future__ import annotations

from typing import TypeAlias

from fl_server.watch.facts.base import Note


class ControlNote(Note, frozen=True):
    """What somebody asked for."""

    @property
    def control_state(self) -> str:
        """How the run stands since then; empty: it goes on."""
        return ""


class Paused(ControlNote, frozen=True, tag="paused"):
    """The run pauses: when the open round has ended, or (`at_rest`) already now."""

    at_rest: bool = False

    @property
    def control_state(self) -> str:
        """How the run stands since then."""
        return "paused" if self.at_rest else "pausing"


class Resumed(ControlNote, frozen=True, tag="resumed"):
    """A paused run goes on, or one that was to stop does not."""


class Stopping(ControlNote, frozen=True, tag="stopping"):
    """The coordinator ends after this round; the run can be resumed."""

    @property
    def control_state(self) -> str:
        """How the run stands since then."""
        return "stopping"


Control: TypeAlias = Paused | Resumed | Stopping
