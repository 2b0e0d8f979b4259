"""PURE: whether a run goes on, pauses or stops."""

from __future__ import annotations

from fl_server.rounds.requests import ControlState
from fl_server.rounds.state import Action, Closing, Finished, Gathering, Report, State, Working
from fl_server.watch.facts.making import control_changed


def control_state(state: State) -> ControlState:
    """Whether the run goes on (empty), pauses or stops after this round, or is paused."""
    match state.request, state.phase:
        case ("run", _) | (_, Finished()):
            return ""
        case "pause", Gathering():
            return "paused"
        case "pause", _:
            return "pausing"
        case _:
            return "stopping"


def has_stopped(state: State) -> bool:
    """Whether the run was to stop, and no round is open."""
    return state.request == "stop" and isinstance(state.phase, Gathering)


def report_control(before: State, state: State) -> tuple[State, tuple[Action, ...]]:
    """Report it, if it has changed."""
    now, phase = control_state(state), state.phase
    if now == control_state(before):
        return state, ()
    is_open = isinstance(phase, Working | Closing)
    return state, (Report(control_changed(now, state.done + 1 if is_open else state.done)),)
