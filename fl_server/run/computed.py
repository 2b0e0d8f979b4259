"""PURE: which CPU and which torch computed each client, and whether one of them changed."""

from __future__ import annotations

from collections.abc import Mapping

MOST = 64  # different ones that are noted: a board may send what it likes


class Computed:
    """What decides how each client's results are rounded, over the whole run."""

    def __init__(self, known: Mapping[str, tuple[int, ...]]) -> None:
        self._clients = {text: set(clients) for text, clients in known.items()}
        self._mixed = any(len(self._of(client)) > 1 for client in self._all())

    def note(self, client: int, arithmetic: str) -> bool:
        """A client was computed by this; whether that was not known yet."""
        known = arithmetic in self._clients
        if not arithmetic or (not known and len(self._clients) >= MOST):
            return False
        clients = self._clients.setdefault(arithmetic, set())
        if client in clients:
            return False
        clients.add(client)
        return True

    def warning(self, client: int) -> str:
        """That a client has changed how it is computed; once in a run."""
        texts = self._of(client)
        if self._mixed or len(texts) < 2:
            return ""
        self._mixed = True
        return (
            f"client {client} was computed by {texts[0]}, and now by {texts[-1]}, which may "
            "round differently: the same bits as without that are no longer promised"
        )

    def table(self) -> dict[str, tuple[int, ...]]:
        """Arithmetic -> its clients, as it is written down."""
        return {text: tuple(sorted(clients)) for text, clients in self._clients.items()}

    def _of(self, client: int) -> list[str]:
        return [text for text, clients in self._clients.items() if client in clients]

    def _all(self) -> set[int]:
        return set().union(*self._clients.values())
