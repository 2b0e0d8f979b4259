"""PURE: numbers as people read them."""

from __future__ import annotations

from collections.abc import Sequence

BYTES = ("B", "kB", "MB", "GB", "TB")
BARS = "▁▂▃▄▅▆▇█"


def percent(value: float | None) -> str:
    """0.8123 -> 81.2 %."""
    return "-" if value is None else f"{100 * value:.1f} %"


def decimal(value: float | None) -> str:
    """Three digits behind the point; a huge number with a power of ten."""
    if value is None:
        return "-"
    return f"{value:.3f}" if abs(value) < 1e9 else f"{value:.3e}"


def measure(value: float | None, *, share: bool) -> str:
    """A metric: a share in percent, others with four digits that count."""
    if share or value is None:
        return percent(value)
    return f"{value:.4g}"


def scaled(value: float, units: Sequence[str], like: float) -> tuple[str, str]:
    """A number and its unit, in the unit that another number (`like`) needs."""
    size, at = abs(like), 0
    while size >= 1000 and at < len(units) - 1:
        size, at = size / 1000, at + 1
    return (f"{value:.0f}" if at == 0 else f"{value / 1000**at:.1f}"), units[at]


def size(count: float) -> str:
    """Bytes: 1_300_000 -> 1.3 MB."""
    return " ".join(scaled(count, BYTES, count))


def duration(seconds: float) -> str:
    """Seconds as m:ss or h:mm:ss."""
    minutes, rest = divmod(int(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def sparkline(values: Sequence[float], width: int = 24) -> str:
    """A curve in one line."""
    if len(values) < 2:
        return ""
    low, high = min(values), max(values)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(BARS[round((value - low) * scale)] for value in values[-width:])
