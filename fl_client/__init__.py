"""The board daemon: simulates clients, trains, keeps their state."""

from importlib.util import find_spec
from pathlib import Path

_COMMON = find_spec("common")
_ORIGIN = Path((_COMMON and _COMMON.origin) or "common")
if _ORIGIN.resolve().parents[1] != Path(__file__).resolve().parents[1]:
    raise SystemExit(f"{_ORIGIN} hides a package of fedbed; rename it, or start elsewhere")
