"""Users' own functions, named in an experiment as `package.module:function`."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from pathlib import Path

from common.errors import ConfigError


@functools.cache  # made once
def _folder() -> list[Path]:
    return []


def use_code(folder: Path | None) -> None:
    """Find users' code in this folder from now on."""
    _folder()[:] = [] if folder is None else [folder.absolute()]


def code_folder() -> Path | None:
    """Where this process finds users' code."""
    return _folder()[0] if _folder() else None


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
