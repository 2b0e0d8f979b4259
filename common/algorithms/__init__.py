"""The algorithms by name; those of others by `package.module:builder`, or by the name under
which their package registers them (entry point group `fedbed.algorithms`).

A builder takes keyword-only options with types and defaults and returns an Algorithm; its
signature is all the declaration there is.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import entry_points
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

import msgspec

from common.algorithms.base import Algorithm
from common.config import Option
from common.errors import ConfigError
from common.plugins import find_function, user_errors

_HERE = "common.algorithms"
BUILDERS = {
    "fedavg": f"{_HERE}.fedavg:fedavg",
    "fedprox": f"{_HERE}.fedprox:fedprox",
    "feddyn": f"{_HERE}.feddyn:feddyn",
    "scaffold": f"{_HERE}.scaffold:scaffold",
    "fedavgm": f"{_HERE}.fedavgm:fedavgm",
    "fedadagrad": f"{_HERE}.fedopt:fedadagrad",
    "fedadam": f"{_HERE}.fedopt:fedadam",
    "fedyogi": f"{_HERE}.fedopt:fedyogi",
    "fedper": f"{_HERE}.fedper:fedper",
    "fedrep": f"{_HERE}.fedrep:fedrep",
    "fedavg2rep": f"{_HERE}.fedavg2rep:fedavg2rep",
    "fedbabu": f"{_HERE}.fedbabu:fedbabu",
    "fedrod": f"{_HERE}.fedrod:fedrod",
    "fedreg": f"{_HERE}.fedreg:fedreg",
    "gpfl": f"{_HERE}.gpfl:gpfl",
    "ditto": f"{_HERE}.ditto:ditto",
    "apfl": f"{_HERE}.apfl:apfl",
    "fedfomo": f"{_HERE}.fedfomo:fedfomo",
    "fliu": f"{_HERE}.fliu:fliu",
    "perfedavg": f"{_HERE}.perfedavg:perfedavg",
    "clt": f"{_HERE}.clt:clt",
}
ALIASES = {"fedreb": "fedreg"}


def build(name: str, options: Mapping[str, Option]) -> Algorithm:
    """The algorithm of this name with these options, and the defaults of the others."""
    return build_complete(name, complete_options(name, options))


def build_complete(name: str, options: Mapping[str, Any]) -> Algorithm:
    """The algorithm of this name with all of its options, from `complete_options`."""
    builder = find_builder(name)
    with user_errors(f"algorithm.name is {name!r}", builder):
        algorithm: object = builder(**options)
    if not isinstance(algorithm, Algorithm):
        raise ConfigError(f"algorithm.name is {name!r}, which does not build an Algorithm")
    return algorithm


def complete_options(name: str, options: Mapping[str, Option]) -> dict[str, Any]:
    """All options of an algorithm, checked: those given, and the defaults of the others."""
    known = options_of(find_builder(name))
    for key in options:
        if key not in known:
            raise ConfigError(
                f"algorithm.{key} is not a setting of {name}{suggestion(key, known)}"
            )
    for key, (_, default) in known.items():
        if default is inspect.Parameter.empty and key not in options:
            raise ConfigError(f"algorithm.{key} is missing; {name} has no default for it")
    fields = [(key, kind, default) for key, (kind, default) in known.items()]
    shape = msgspec.defstruct("Options", fields, kw_only=True)
    try:
        checked = msgspec.convert(dict(options), shape)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at `$.")
        key = place.rstrip("`")
        what = what[0].lower() + what[1:].replace("`", "")
        if what.startswith("invalid enum value"):
            what = f"expected {choices(known[key][0])}"
        raise ConfigError(f"algorithm.{key} is {options[key]!r}; {what}") from error
    return {key: getattr(checked, key) for key in known}


def find_builder(name: str) -> Callable[..., Algorithm]:
    """The function that builds an algorithm."""
    place = name if ":" in name else BUILDERS.get(name) or known_builders().get(name)
    if place is None:
        near = suggestion(name, known_builders())
        raise ConfigError(f"algorithm.name is {name!r}, which is not known{near}")
    builder = find_function("algorithm.name", name, place)
    return cast("Callable[..., Algorithm]", builder)  # `build_complete` checks what it returns


def known_builders() -> dict[str, str]:
    """Name -> place of every builder: ours, and those that installed packages register."""
    aliases = {alias: BUILDERS[name] for alias, name in ALIASES.items()}
    return {**_registered(), **BUILDERS, **aliases}


@functools.cache
def _registered() -> dict[str, str]:
    """What installed packages register; finding it means to look into every one of them."""
    return {entry.name: entry.value for entry in entry_points(group="fedbed.algorithms")}


def options_of(builder: Callable[..., Algorithm]) -> dict[str, tuple[Any, Any]]:
    """Option -> (type, default), from the builder's signature."""
    with user_errors("the types of an algorithm's options", builder):
        hints = get_type_hints(builder, include_extras=True)
        parameters = inspect.signature(builder).parameters.values()
    return {p.name: (hints.get(p.name, Any), p.default) for p in parameters}


def choices(hint: Any) -> str:  # noqa: ANN401 - a type, annotated or not
    """What a type with literals in it allows, such as `a number or 'forever'`."""
    return " or ".join(_choices(hint))


def _choices(hint: Any) -> Iterator[str]:  # noqa: ANN401 - a type, annotated or not
    if hint in (int, float):
        yield "a number"
    elif get_origin(hint) is Literal:
        yield from map(repr, get_args(hint))
    else:
        for part in get_args(hint):
            yield from _choices(part)


def suggestion(word: str, known: Mapping[str, object]) -> str:
    """The end of an error message: the nearest valid name, or all of them."""
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; expected one of {', '.join(sorted(known))}" if known else "; it has none"
