"""What a round's training comes to, as a line of metrics.jsonl."""

from __future__ import annotations

import time
from collections.abc import Sequence

from msgspec import UNSET

from fl_server.rounds.state import Close
from fl_server.run.metrics.tally import Tally
from fl_server.run.server_half import Reported
from fl_server.watch.facts.lines import TrainingLine


def training_line(
    close: Close,
    tally: Tally,
    reported: Reported,
    *,
    seconds: float,
    aggregate_seconds: float,
    epsilon: float | None,
    rounds: Sequence[int] | None = None,
) -> TrainingLine:
    """The line of a round that was aggregated just now.

    `rounds` are, in buffered ones, those whose models the clients have trained.
    """
    number = close.round_number
    return TrainingLine(
        round=number,
        train_loss=reported.loss,
        updates=len(close.used),
        clients=close.used,
        dropped=close.dropped,
        staleness=UNSET if rounds is None else tuple(number - at for at in rounds),
        samples=reported.samples,
        values=dict(reported.values) or UNSET,
        seconds=round(seconds, 3),
        train_seconds=round(sum(tally.trained.values()), 3),
        aggregate_seconds=round(aggregate_seconds, 3),
        bytes_up=tally.bytes_up,
        bytes_down=tally.bytes_down,
        energy_joules=tally.energy_joules,
        idle_joules=UNSET if tally.idle_joules is None else tally.idle_joules,
        epsilon=UNSET if epsilon is None else round(epsilon, 4),
        time=round(time.time(), 3),
    )
