"""The board daemon: simulates clients, trains, keeps their state."""

from importlib.util import find_spec

_COMMON = find_spec("common")
if _COMMON is None or _COMMON.origin != "common".join(__file__.rsplit("fl_client", 1)):
    _WHAT = "no common" if _COMMON is None else f"{_COMMON.origin} hides the common"
    raise SystemExit(f"{_WHAT} of fedbed; rename it, or start in another folder")
