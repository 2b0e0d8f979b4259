"""Experiment files: TOML in, one checked Experiment out; errors name the place and the cure."""

from __future__ import annotations

import difflib
import json
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from common.algorithms import find_builder, options_of
from common.blueprint import check
from common.config import AlgorithmSection, Experiment, Section
from common.errors import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def load_experiment(path: Path, overrides: Iterable[str] = ()) -> Experiment:
    """The experiment in a file, with `section.key=value` overrides applied."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ConfigError(
            f"{path} does not exist; write one with 'fl-server init {path}'"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error
    for override in overrides:
        apply_override(table, override)
    if isinstance(table.setdefault("experiment", {}), dict):
        table["experiment"].setdefault("name", _name_from(path))
    try:
        return parse_experiment(table)
    except ConfigError as error:
        raise ConfigError(f"{_place_in(path, text, str(error))}: {error}") from error


def apply_override(table: dict[str, Any], override: str) -> None:
    """Put `section.key=value` into a parsed file; the value is TOML, or else plain text."""
    place, equals, value = override.partition("=")
    section, dot, key = place.strip().partition(".")
    if not (equals and dot and key):
        raise ConfigError(f"--set {override!r}; expected section.key=value")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    inner = table.setdefault(section, {})
    if not isinstance(inner, dict):
        raise ConfigError(f"{section} is not a section")
    inner[key] = parsed


def parse_experiment(table: Mapping[str, Any]) -> Experiment:
    """A parsed file as an Experiment, every key checked."""
    sections = get_type_hints(Experiment)
    _check_names("", table, sections)
    values: dict[str, Any] = {}
    for name, kind in sections.items():
        inner = table.get(name, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"{name} is {inner!r}; expected a section: [{name}]")
        values[name] = _parse_section(name, kind, inner)
    experiment = Experiment(**values)
    check(experiment)
    return experiment


def _parse_section(name: str, kind: type[Section], inner: dict[str, Any]) -> Section:
    if kind is AlgorithmSection:
        options = {key: value for key, value in inner.items() if key != "name"}
        inner = {**({"name": inner["name"]} if "name" in inner else {}), "options": options}
    else:
        _check_names(f"{name}.", inner, get_type_hints(kind))
    try:
        return msgspec.convert(inner, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(_explain(name, str(error), inner, kind)) from error


def _check_names(prefix: str, given: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    for key in given:
        if key in known:
            continue
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
        hint = (
            f"did you mean {prefix}{near[0]}?"
            if near
            else f"expected one of {', '.join(known)}"
        )
        what = "setting" if prefix else "section"
        raise ConfigError(f"{prefix}{key} is not a {what}; {hint}")


def _explain(section: str, error: str, inner: Mapping[str, Any], kind: type[Section]) -> str:
    """msgspec's message with the key first, the value, and what was expected."""
    what, _, place = error.partition(" - at `$.")
    key = place.rstrip("`").removeprefix("options.").split("[")[0]
    if not key:
        return f"{section}.{what}"
    value = inner.get(key, inner.get("options", {}).get(key))
    what = what[0].lower() + what[1:].replace("`", "")
    if what.startswith("invalid enum value"):
        words = _words_of(get_type_hints(kind, include_extras=True)[key])
        what = f"expected {' or '.join(map(repr, words))}"
    return f"{section}.{key} is {value!r}; {what}"


def _words_of(hint: Any) -> tuple[object, ...]:  # noqa: ANN401 - a type, annotated or not
    """All words that stand as a Literal somewhere in a type."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    return tuple(word for part in get_args(hint) for word in _words_of(part))


def _place_in(path: Path, text: str, message: str) -> str:
    """`file:line` of the key a message begins with, if it stands in the file."""
    match = re.match(r"(\w+)(?:\.(\w+))?", message)
    if match is None:
        return str(path)
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[\s*(\w+)\s*\]", line):
            section = header[1]
            if section == match[1] and match[2] is None:
                return f"{path}:{number}"
        key = re.match(r"\s*(\w+)\s*=", line)
        if key and section == match[1] and key[1] == match[2]:
            return f"{path}:{number}"
    return str(path)


def _name_from(path: Path) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "-", path.stem).lstrip("_.-")[:64] or "experiment"


def write_text(experiment: Experiment) -> str:
    """An experiment as TOML with every key and what it means."""
    lines: list[str] = []
    for name, kind in get_type_hints(Experiment).items():
        section = getattr(experiment, name)
        lines += [f"# {_first_line(kind)}", f"[{name}]"]
        for key, (value, text) in _documented(kind, section).items():
            lines += [f"# {line}" for line in _wrapped(text)]
            lines.append(f"{key} = {_toml(value)}")
        lines.append("")
    return "\n".join(lines)


def _documented(kind: type[Section], section: Section) -> dict[str, tuple[object, str]]:
    """Key -> (value, description); an algorithm's own options stand beside its name."""
    hints = get_type_hints(kind, include_extras=True)
    found = {
        key: (getattr(section, key), description(hint))
        for key, hint in hints.items()
        if key != "options"
    }
    if isinstance(section, AlgorithmSection):
        for key, (hint, default) in options_of(find_builder(section.name)).items():
            found[key] = (section.options.get(key, default), description(hint))
    return found


def description(hint: Any) -> str:  # noqa: ANN401 - a type, annotated or not
    """What a setting's annotation says about it, with its range or choices."""
    metas = getattr(hint, "__metadata__", ())
    return next((m.description for m in metas if getattr(m, "description", None)), "")


def _first_line(kind: type) -> str:
    return (kind.__doc__ or "").strip().splitlines()[0]


def _wrapped(text: str) -> list[str]:
    words, lines = text.split(), [""]
    for word in words:
        if len(lines[-1]) + len(word) > 88:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return [line for line in lines if line]


def _toml(value: object) -> str:
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple | list):
        return f"[{', '.join(_toml(item) for item in value)}]"
    return repr(value)
