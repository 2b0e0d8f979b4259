"""What a relay's machine decided becomes messages and files."""

from __future__ import annotations

import logging
from collections.abc import Callable

from common.errors import FedbedError
from common.wire.link import Link
from common.wire.messages import TrainDetail
from common.wire.presence import Presence
from common.wire.topics import packet
from fl_server.site.files import SiteFiles
from fl_server.site.settings import Settings
from fl_server.site.state import (
    Action,
    CloseRun,
    Event,
    Note,
    OpenRound,
    OpenRun,
    PublishAway,
    RoundOpened,
    RunOpened,
    RunRefused,
    SendModel,
    SendSum,
    ToSite,
    ToUplink,
)

log = logging.getLogger(__name__)


class Effects:
    """Carries out actions; some of them have an event as their result."""

    def __init__(
        self,
        settings: Settings,
        site: Link,
        uplink: Link,
        presence: Presence,
        files: SiteFiles,
        clock: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._site = site
        self._uplink = uplink
        self._presence = presence
        self._files = files
        self._clock = clock

    def perform(self, action: Action) -> Event | None:
        """Do it; returns what follows at once."""
        match action:
            case OpenRun(detail):
                return self._open_run(detail)
            case OpenRound(run, round_number):
                stored, odd = self._files.open_round(round_number)
                return RoundOpened(run, round_number, stored, odd, self._clock())
            case CloseRun(run):
                log.info("run %s is over at this site", run)
                for each in self._files.close_run(self._settings.federation):
                    self._site.publish(each)
            case _:
                self._send(action)
        return None

    def _send(
        self, action: ToSite | ToUplink | PublishAway | SendModel | SendSum | Note
    ) -> None:
        below, above = self._settings.federation, self._settings.uplink_federation
        match action:
            case ToSite(message):
                self._site.publish(packet(below, message))
            case ToUplink(message):
                self._uplink.publish(packet(above, message))
            case PublishAway(clients):
                self._presence.publish_away(clients)
            case SendModel(run, round_number):
                name = f"model {run} {round_number}"
                self._site.stream(name, self._files.model_packets(below))
            case SendSum(round_number, clients):
                packets = self._files.sum_packets(above, round_number, clients)
                self._uplink.stream(action, packets)
            case Note(text):
                log.info("%s", text)

    def _open_run(self, detail: TrainDetail) -> Event:
        try:
            grace, deadline = self._files.open_run(detail)
        except FedbedError as error:
            self.publish_problem(f"cannot take part in {detail.run}: {error}")
            return RunRefused(detail.run, self._clock())
        self.publish_problem("")
        return RunOpened(detail.run, grace, deadline, self._clock())

    def publish_problem(self, problem: str) -> None:
        """Publish why this site cannot take part (or, empty, that it can again)."""
        if self._presence.publish_problem(problem) and problem:
            log.error("%s", problem)
