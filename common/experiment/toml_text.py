"""PURE: values as they stand in a TOML file."""

from __future__ import annotations

import json


def shown(value: object) -> str:
    """A value in an error text: as it stands in a file, not as Python has it."""
    return as_toml(value) if isinstance(value, bool | dict | tuple | list) else repr(value)


def as_toml(value: object) -> str:
    """A setting's value as it stands in a file."""
    if isinstance(value, str):  # JSON's escapes are TOML's, except surrogate pairs and DEL
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        pairs = (f"{key} = {as_toml(item)}" for key, item in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, tuple | list):
        return f"[{', '.join(as_toml(item) for item in value)}]"
    return repr(value)
