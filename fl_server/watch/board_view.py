"""PURE: one board as a person sees it, from the facts reported about it."""

from __future__ import annotations

from common.texts import shortened
from common.values import Value, replace
from common.wire.messages import Telemetry
from fl_server.watch import facts
from fl_server.watch.facts.making import PROBLEM_LETTERS


class BoardView(Value, frozen=True):
    """One board as it is seen."""

    clients: tuple[int, ...] = ()
    more_clients: int = 0  # that are not kept
    here: bool = True
    doing: str = "waiting"
    client: int | None = None
    epoch: int = 0
    epochs: int = 0
    seen: float = 0.0
    problem: str = ""
    host: str = ""
    telemetry: Telemetry | None = None

    def simulates(self, client_id: int) -> bool:
        """Whether this is one of its clients, as far as these are known."""
        return self.more_clients > 0 or client_id in self.clients

    def after_presence(self, fact: facts.Presence) -> BoardView:
        """The board once its presence is known, apart from its clients."""
        doing = self.doing if self.here else "waiting"
        return replace(
            self,
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
            problem=shortened(info.problem, PROBLEM_LETTERS),
            telemetry=info.telemetry or self.telemetry,
        )

    def not_back_yet(self) -> BoardView:
        """The board as it is known from before the coordinator was started again."""
        return replace(self, here=False, doing="missing", client=None, seen=0.0, problem="")

    def in_next_run(self) -> BoardView:
        """The board at the beginning of another run."""
        return replace(self, doing="waiting" if self.here else "lost", client=None)
