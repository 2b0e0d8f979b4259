"""PURE: one board as a person sees it, from the facts reported about it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from common.wire.messages import Telemetry
from fl_server.watch import facts


@dataclass(frozen=True, slots=True)
class BoardView:
    """One board as it is seen."""

    clients: tuple[int, ...] = ()
    here: bool = True
    doing: str = "waiting"
    client: int | None = None
    epoch: int = 0
    epochs: int = 0
    seen: float = 0.0
    problem: str = ""
    host: str = ""
    telemetry: Telemetry | None = None

    def after_presence(self, fact: facts.Presence) -> BoardView:
        """The board once its presence is known."""
        doing = self.doing if self.here else "waiting"
        return replace(
            self,
            clients=fact.clients,
            here=fact.connected,
            seen=fact.time,
            doing=doing if fact.connected else "lost",
            host=fact.host or self.host,
            problem=fact.problem,
            telemetry=fact.telemetry or self.telemetry,
        )

    def after_info(self, fact: facts.Info) -> BoardView:
        """The board once it has reported about a client."""
        info = fact.info
        return replace(
            self,
            doing=info.state,
            client=info.client,
            epoch=info.epoch,
            epochs=info.epochs,
            seen=fact.time,
            here=True,
            problem=info.problem,
            telemetry=info.telemetry or self.telemetry,
        )

    def in_next_run(self) -> BoardView:
        """The board at the beginning of another run."""
        return replace(self, doing="waiting" if self.here else "lost", client=None)
