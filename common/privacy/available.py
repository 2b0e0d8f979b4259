"""Whether this machine can take part in secured runs."""

from __future__ import annotations

import importlib.util

from common.errors import FedbedError


def check_available() -> None:
    """FedbedError, with what to install, if the package `cryptography` is missing."""
    if importlib.util.find_spec("cryptography") is None:
        raise FedbedError(
            "privacy.secure needs the package cryptography; install it: "
            "pip install 'fedbed[privacy]'"
        )
