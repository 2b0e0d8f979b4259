"""PURE: a token bucket per key: a burst at once, then one every so many seconds.

What boards send must not decide how long our logs become.
"""

from __future__ import annotations

from dataclasses import dataclass, field

MOST_KEYS = 10_000


@dataclass(slots=True)
class RateLimit:
    """A bucket of tokens for every key; it fills up again with time."""

    burst: int = 20
    seconds: float = 10.0
    _left: dict[str, tuple[float, float]] = field(default_factory=dict)

    def allows(self, key: str, now: float) -> bool:
        """Take a token from the bucket of `key`; False if there is none left."""
        if key not in self._left and len(self._left) >= MOST_KEYS:
            key = ""
        left, at = self._left.get(key, (float(self.burst), now))
        left = min(float(self.burst), left + (now - at) / self.seconds)
        allowed = left >= 1.0
        self._left[key] = (left - 1.0 if allowed else left, now)
        return allowed
