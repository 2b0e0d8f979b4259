"""PURE: what messages to all boards say of our own clients.

Lists of all clients are looked through when a message comes, not in every step.
"""

from __future__ import annotations

import msgspec

from common.values import replace
from common.wire.messages import CurrentRound, Selected
from fl_client.agent.state import Policy, State


def with_ours(policy: Policy, state: State, run: str) -> State:
    """With what the new message of a run says of our clients."""
    ours = {r: state.ours[r] for r in state.ours if r in state.current and r in state.selected}
    if run in state.current and run in state.selected:
        ours[run] = _ours_of(policy, state.current[run], state.selected[run])
    return replace(state, ours=ours)


def _ours_of(
    policy: Policy, current: CurrentRound, selected: Selected
) -> tuple[CurrentRound, Selected]:
    """Both messages, without the clients of others."""
    mine = frozenset(policy.clients)
    return (
        msgspec.structs.replace(
            current,
            safe=tuple(sorted(mine.intersection(current.safe))),
            measured=tuple(sorted(mine.intersection(current.measured))),
            answered=tuple(sorted(mine.intersection(current.answered))),
            accepted={c: current.accepted[c] for c in mine if c in current.accepted},
        ),
        msgspec.structs.replace(
            selected,
            clients=tuple(sorted(mine.intersection(selected.clients))),
            testers=tuple(sorted(mine.intersection(selected.testers))),
            started={c: selected.started[c] for c in mine if c in selected.started},
        ),
    )
