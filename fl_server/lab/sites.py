"""A lab with sites: for each a broker and a relay, between its boards and the first broker."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from common.access.address import Address
from common.ids import show_ids
from fl_server.lab.lab import Lab, LabBoard

STATES = "sites"  # in the folder of a lab


class SitesLab(Lab):
    """Neighbouring boards share a site; sizes are as equal as possible."""

    def __init__(
        self,
        folder: Path,
        boards: Mapping[str, LabBoard],
        sites: int,
        *,
        data: Path | None = None,
        code: Path | None = None,
    ) -> None:
        super().__init__(folder, boards, data=data, code=code)
        names, count = list(boards), min(sites, len(boards))
        cuts = [len(names) * at // count for at in range(count + 1)]
        self._sites = {
            f"site{at + 1}": {name: boards[name] for name in names[cuts[at] : cuts[at + 1]]}
            for at in range(count)
        }
        self._addresses: dict[str, Address] = {}

    @property
    def sites(self) -> tuple[str, ...]:
        """The names of the sites."""
        return tuple(self._sites)

    def start_brokers(self) -> None:
        """The coordinator's broker; and for each site a broker and a relay."""
        super().start_brokers()
        for site in self._sites:
            self._addresses[site] = self.start_broker(f"{site}-broker")
            self.start_relay(site)

    def start_relay(self, site: str) -> None:
        """Start the relay of a site, for the first time or again."""
        boards = self._sites[site].values()
        clients = tuple(client for board in boards for client in board.clients)
        self.spawn(
            f"{site}-relay",
            *("fl_server", "relay", "--site", site, "--clients", show_ids(clients)),
            *("--broker", str(self._addresses[site]), "--uplink", str(self.address)),
            *("--state", str(self.folder / STATES / site)),
        )

    def port_for(self, board: str) -> int:
        """The broker of its site."""
        site = next(site for site, boards in self._sites.items() if board in boards)
        return self._addresses[site].port

    def killed(self) -> tuple[str, ...]:
        """Boards, relays and brokers of sites that a signal has ended."""
        return tuple(name for name in self.ended_by_signals() if name != "broker")

    def start_board(self, board: str) -> None:
        """Start a board, or what else of a site has died."""
        site, _, what = board.partition("-")
        if what == "relay":
            self.start_relay(site)
        elif what == "broker":
            self.spawn_broker(board, self._addresses[site].port)
        else:
            super().start_board(board)
