"""Users' own functions, named in an experiment as `package.module:function`."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from common.errors import ConfigError


def find_function(key: str, name: str, place: str = "") -> Callable[..., object]:
    """The function that the setting `key` calls `name`; it is at `place`, or at its name."""
    module, _, attribute = (place or name).partition(":")
    try:
        function: Callable[..., object] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise ConfigError(f"{key} is {name!r}: {error}") from error
    if not callable(function):
        raise ConfigError(f"{key} is {name!r}, which is not a function")
    return function
