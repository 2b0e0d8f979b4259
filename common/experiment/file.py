"""Experiment files: TOML in, one checked Experiment out; errors name place and remedy."""

from __future__ import annotations

import difflib
import functools
import math
import re
import sys
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from common.algorithms import choices, find_builder, options_of
from common.config import AlgorithmSection, DataSection, Experiment, Option, Schema, Section
from common.data.own.sources import is_own
from common.errors import ConfigError
from common.experiment.resolve import checked, own_code
from common.experiment.toml_text import as_toml, shown
from common.ids import NAMES
from common.plugins import use_code

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

WIDTH = 90  # of comments in the files that we write
RECORDS = ("run.json", "central.json")  # of a run, of a centralized training


def load_experiment(
    path: Path, overrides: Iterable[str] = (), *, one_of_many: bool = False
) -> Experiment:
    """The experiment in a file, with `section.key=value` overrides applied.

    A file with a [sweep] is many experiments; with `one_of_many` the overrides select one.
    """
    text, table = read_table(path)
    use_code(code_folder_of(path))
    if table.pop("sweep", None) is not None and not one_of_many:
        raise ConfigError(f"{path} has a [sweep] section; run it with 'fl-server sweep {path}'")
    overrides = tuple(overrides)
    for override in overrides:
        apply_override(table, override)
    if isinstance(table.setdefault("experiment", {}), dict):
        table["experiment"].setdefault("name", name_from(path))
    try:
        return parse_experiment(table)
    except ConfigError as error:
        raise ConfigError(f"{_place(path, text, overrides, str(error))}: {error}") from error


def parse_text(text: str, *, code: Path | None = None) -> Experiment:
    """An experiment that came as text; without the folder of its code it may not name any."""
    path = Path("experiment.toml")
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"the experiment is not valid TOML: {error}") from error
    if "sweep" in table:
        raise ConfigError("the text has a [sweep] section; submit the file: fl-server submit")
    try:
        experiment = _parsed(table)
        if code is None:
            _refuse_own(experiment)
        else:
            use_code(code)
        return checked(experiment)
    except ConfigError as error:
        raise ConfigError(f"{_place(path, text, (), str(error))}: {error}") from error


def _refuse_own(experiment: Experiment) -> None:
    for place in (*own_code(experiment), *filter(is_own, [experiment.data.dataset])):
        raise ConfigError(
            f"the experiment has code or data of its own ({place}), which is beside its file; "
            "submit the file: fl-server submit"
        )


def read_experiment(path: Path) -> Experiment:
    """The complete experiment of a run, as it was checked then: its code may be gone now."""
    try:
        return _parsed(read_table(path)[1])
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def code_folder_of(path: Path) -> Path:
    """Where the users' code of an experiment is: beside it, or where its run has it from."""
    for name in RECORDS:
        try:
            record = msgspec.json.decode((path.parent / name).read_bytes(), type=CodeRecord)
        except (OSError, msgspec.DecodeError):
            continue
        return Path(record.code) if record.code else path.parent.absolute()
    return path.parent.absolute()


class CodeRecord(msgspec.Struct):
    """What the record of a run or of a centralized training says about users' code."""

    code: str = ""


def read_table(path: Path, cure: str = "") -> tuple[str, dict[str, Any]]:
    """A TOML file as text and as a table; `cure`: what to do if it is not there."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        cure = cure or f"write one with 'fl-server init {path}'"
        raise ConfigError(f"{path} does not exist; {cure}") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} cannot be read: it is not UTF-8 text") from error
    try:
        return text, tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error


def apply_override(table: dict[str, Any], override: str) -> None:
    """Put `section.key=value` into a parsed file; the value is TOML, or else plain text."""
    place, equals, value = override.partition("=")
    section, dot, key = place.strip().partition(".")
    if not (equals and section and dot and key):
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
    return checked(_parsed(table))


def _parsed(table: Mapping[str, Any]) -> Experiment:
    sections = _hints(Experiment)
    _check_names("", table, sections)
    values: dict[str, Any] = {}
    for name, kind in sections.items():
        inner = table.get(name, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"{name} is {inner!r}; expected a section: [{name}]")
        values[name] = _parse_section(name, kind, inner)
    return Experiment(**values)


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    """Its fields and their types; to find them takes longer than all the rest."""
    return get_type_hints(kind)


def _parse_section(name: str, kind: type[Section], inner: dict[str, Any]) -> Section:
    for key, value in inner.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"{name}.{key} is {value}; expected a finite number")
    if kind is AlgorithmSection:
        options = {key: value for key, value in inner.items() if key != "name"}
        for key, value in options.items():
            if not isinstance(value, Option):
                raise ConfigError(
                    f"{name}.{key} is {shown(value)}; expected a number or a string"
                )
        inner = {**({"name": inner["name"]} if "name" in inner else {}), "options": options}
    else:
        _check_names(f"{name}.", inner, _hints(kind))
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
    what = what[0].lower() + what[1:].replace("`array`", "a list").replace("`", "")
    if "matching regex" in what:
        what = NAMES
    if what.startswith("invalid enum value"):
        what = f"expected {choices(get_type_hints(kind, include_extras=True)[key])}"
    return f"{section}.{key} is {shown(value)}; {what}"


def _place(path: Path, text: str, overrides: Iterable[str], message: str) -> str:
    """Where the key stands that a message begins with: `--set ...`, `file:line`, or `file`."""
    match = re.match(r"(\w+)(?:\.(\w+))?", message)
    if match is None:
        return str(path)
    line = _line_of(text, match[1], match[2])
    for override in overrides:
        key = override.partition("=")[0].strip()
        if key == match[0] or (line is None and key.startswith(f"{match[0]}.")):
            return f"--set {override}"
    return str(path) if line is None else f"{path}:{line}"


def _line_of(text: str, section: str, key: str | None) -> int | None:
    """The line of a key in its section; without a key, that of the section's header."""
    wanted = {(section, key)} if key else {(section, ""), ("", section)}
    place = ""
    for at, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[+\s*(\w+)\s*\]", line):
            place = header[1]
        entry = re.match(r"\s*(\w+)\s*=", line)
        if (header or entry) and (place, entry[1] if entry else "") in wanted:
            return at
    return None


def name_from(path: Path) -> str:
    """The name of an experiment whose file has none in it."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", path.stem).lstrip("_.-")[:64] or "experiment"


def write_text(experiment: Experiment) -> str:
    """An experiment as TOML with every key and what it means."""
    lines: list[str] = []
    for name, kind in get_type_hints(Experiment).items():
        section = getattr(experiment, name)
        lines += [f"# {_first_line(kind)}", f"[{name}]"]
        for key, (value, hint) in settings_of(section).items():
            lines += [f"# {line}" for line in textwrap.wrap(description(hint), WIDTH)]
            lines.append(f"{key} = {as_toml(value)}")
        lines.append("")
        if isinstance(section, DataSection) and section.schema is not None:
            lines += schema_lines(section.schema)
    return "\n".join(lines)


def schema_lines(schema: Schema) -> list[str]:
    """The section [data.schema], and an empty line."""
    fields = msgspec.to_builtins(schema).items()
    return [
        "# What a sample is and what its target is.",
        "[data.schema]",
        *(f"{key} = {as_toml(value)}" for key, value in fields),
        "",
    ]


def settings_of(section: Section) -> dict[str, tuple[object, Any]]:
    """Key -> (value, type); an algorithm's own options stand beside its name."""
    hints = get_type_hints(type(section), include_extras=True)
    found = {
        key: (getattr(section, key), hint)
        for key, hint in hints.items()
        if key not in ("options", "schema")
    }
    if isinstance(section, AlgorithmSection):
        for key, (hint, default) in options_of(find_builder(section.name)).items():
            found[key] = (section.options.get(key, default), hint)
    return found


def description(hint: Any) -> str:  # noqa: ANN401 - a type, annotated or not
    """The description in a setting's annotation."""
    metas = getattr(hint, "__metadata__", ())
    return next((m.description for m in metas if getattr(m, "description", None)), "")


def _first_line(kind: type) -> str:
    return (kind.__doc__ or "").strip().splitlines()[0]
