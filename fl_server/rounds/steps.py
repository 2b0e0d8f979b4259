"""PURE: where a secured round is; what follows from it is in `sealing.py`."""

from __future__ import annotations

from collections.abc import Collection

from common.values import Value
from common.wire.messages import Step


class Sealing(Value, frozen=True):
    """The open step of a secured round, and who is in it.

    `keys`     all selected clients, who send their keys
    `shares`   those who did, and send shares of their secrets; `threshold` of them are needed
    `updates`  those who did, and train
    `opening`  those whose updates are in the sum, and open it
    (empty)    nobody: too few are left
    """

    step: Step = "keys"
    clients: tuple[int, ...] = ()
    threshold: int = 0
    answered: frozenset[int] = frozenset()

    def among(self, selected: Collection[int]) -> frozenset[int]:
        """Who of the selected clients is in this step."""
        return frozenset(selected if self.step == "keys" else self.clients)

    def unanswered(self, selected: Collection[int]) -> frozenset[int]:
        """Of whom this step wants an answer."""
        if self.step == "updates" or (
            self.step == "opening" and len(self.answered) >= self.threshold
        ):
            return frozenset()
        return self.among(selected) - self.answered

    @property
    def trainees(self) -> frozenset[int]:
        """Whose updates are wanted."""
        return frozenset(self.clients if self.step in ("updates", "opening") else ())
