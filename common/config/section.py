"""The base of all sections of an experiment."""

from __future__ import annotations

import msgspec


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all sections: frozen, keyword-only, no unknown keys."""
