"""Every event that a state machine was given, in order, as JSON lines; and their replay.

    {"start": {"version": ..., "policy": {...}, "state": {...}}}   once per process
    {"Heard": {"message": {"Selected": {...}}, "now": 12.5}}       an event, by its class name

Policies, states and events are dataclasses. Where a field may hold one of several classes, the
value is wrapped in the name of its class; infinite numbers are strings. A line that a crash has
torn is skipped.
"""

from __future__ import annotations

import dataclasses
import functools
import io
import logging
import math
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar, cast

import msgspec

from common import VERSION
from common.disk.atomic import disk_errors, explain
from common.errors import FedbedError, StoreError
from common.values import Value

log = logging.getLogger(__name__)

P = TypeVar("P")
S = TypeVar("S")
E = TypeVar("E")
T = TypeVar("T")
_START = "start"
_Fields = dict[str, msgspec.Raw]


class Recorder:
    """Appends to a recording; a disk that is full ends the recording, not the program."""

    def __init__(self, path: Path, policy: object, state: object) -> None:
        self._path = path
        with disk_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            torn = _is_torn(path)
            self._file = path.open("ab", buffering=0)
        if torn:
            self._append(b"")
        version = msgspec.Raw(msgspec.json.encode(VERSION))
        start = {"version": version, "policy": encoded(policy), "state": encoded(state)}
        self._append(msgspec.json.encode({_START: start}))

    def write(self, event: object) -> None:
        """Append one event."""
        self._append(msgspec.json.encode({type(event).__name__: encoded(event)}))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _append(self, line: bytes) -> None:
        if self._file.closed:
            return
        try:
            self._file.write(line + b"\n")
        except OSError as error:
            log.warning("%s: %s; recording no more", self._path, explain(error))
            self._file.close()


def _is_torn(path: Path) -> bool:
    if not path.is_file() or path.stat().st_size == 0:
        return False
    with path.open("rb") as file:
        file.seek(-1, io.SEEK_END)
        return file.read() != b"\n"


@dataclass(frozen=True)
class Machine(Generic[P, S, E]):
    """What is needed to replay a recording: the machine's types, its step, a last summary."""

    policy: type[P]
    state: type[S]
    events: tuple[type[E], ...]
    step: Callable[[P, S, E], tuple[S, tuple[object, ...]]]
    summary: Callable[[S], tuple[str, ...]]


@dataclass(frozen=True)
class Start(Generic[P, S]):
    """A process started with this policy and state."""

    version: str
    policy: P
    state: S


@dataclass(frozen=True, slots=True)
class Torn:
    """A line that was cut off by a crash."""


def read(path: Path, machine: Machine[P, S, E]) -> Iterator[tuple[int, Start[P, S] | Torn | E]]:
    """The content of a recording with its line numbers; StoreError for a line in no known form.

    Only the last line of a process can be torn: what cannot be read stands before a start or
    at the end.
    """
    kinds = {kind.__name__: kind for kind in machine.events}
    with disk_errors(path):
        lines = path.read_bytes().splitlines()
    for number, line in enumerate(lines, 1):
        try:
            [(name, fields)] = msgspec.json.decode(line, type=_Fields).items()
            if name == _START:
                yield number, _decode_start(fields, machine)
            else:
                yield number, decoded(fields, kinds[name])
        except (msgspec.DecodeError, UnicodeDecodeError, ValueError, KeyError) as error:
            if number < len(lines) and not lines[number].startswith(b'{"start":'):
                raise StoreError(f"{path}, line {number}: not an event: {error}") from error
            yield number, Torn()


def replay(path: Path, machine: Machine[P, S, E]) -> Iterator[str]:
    """What the machine decides: a line per event, its actions indented, the state at the end.

    Raises FedbedError with the line's number where the machine fails.
    """
    now: Start[P, S] | None = None
    for number, item in read(path, machine):
        if isinstance(item, Torn):
            yield f"{number}: skipped: a line torn by a crash"
        elif isinstance(item, Start):
            yield f"{number}: started (fedbed {item.version}): {item.policy}"
            now = item
        elif now is None:
            raise StoreError(f"{path}, line {number}: an event before the start")
        else:
            yield f"{number}: {_shown(item)}"
            state, actions = _step(path, number, machine, now, item)
            now = dataclasses.replace(now, state=state)
            yield from (f"    {_shown(action)}" for action in actions)
    yield from machine.summary(now.state) if now is not None else ()


def _shown(item: object) -> str:
    """The same text whenever it is replayed: without the address of what is not decoded."""
    return re.sub(r"<msgspec\.Raw object at \w+>", "...", str(item))


def _step(
    path: Path, number: int, machine: Machine[P, S, E], now: Start[P, S], event: E
) -> tuple[S, tuple[object, ...]]:
    try:
        return machine.step(now.policy, now.state, event)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise FedbedError(f"{path}, line {number}: the machine fails: {reason}") from error


def _decode_start(data: msgspec.Raw, machine: Machine[P, S, E]) -> Start[P, S]:
    fields = msgspec.json.decode(data, type=_Fields)
    version = msgspec.json.decode(fields["version"], type=str)
    policy = decoded(fields["policy"], machine.policy)
    return Start(version, policy, decoded(fields["state"], machine.state))


@functools.cache
def _hints(kind: type[object]) -> Mapping[str, object]:
    return typing.get_type_hints(kind)


def _classes(hint: object) -> dict[str, type[object]]:
    """The classes that a field may hold, by name, where there are several."""
    if not isinstance(hint, types.UnionType) and typing.get_origin(hint) is not typing.Union:
        return {}
    found = [part for part in typing.get_args(hint) if _has_fields(part)]
    return {kind.__name__: kind for kind in found} if len(found) > 1 else {}


def _has_fields(hint: object) -> bool:
    is_struct = isinstance(hint, type) and issubclass(hint, msgspec.Struct)
    return is_struct or dataclasses.is_dataclass(hint)


def _is_ours(kind: object) -> bool:
    """Whether it is encoded field by field: a state, an event; not a message."""
    is_value = isinstance(kind, type) and issubclass(kind, Value)
    return is_value or dataclasses.is_dataclass(kind)


def encoded(value: object) -> msgspec.Raw:
    """A value as JSON, as in a recording."""
    if isinstance(value, float) and math.isinf(value):
        return msgspec.Raw(msgspec.json.encode(str(value)))
    if not _is_ours(type(value)):
        return msgspec.Raw(msgspec.json.encode(value))
    fields: dict[str, object] = {}
    for name, hint in _hints(cast("type", type(value))).items():
        part = getattr(value, name)
        tagged = type(part).__name__ in _classes(hint)
        fields[name] = {type(part).__name__: encoded(part)} if tagged else encoded(part)
    return msgspec.Raw(msgspec.json.encode(fields))


def decoded(data: msgspec.Raw, kind: type[T]) -> T:
    """A value of this kind; msgspec.DecodeError, KeyError or ValueError if it is none."""
    if not _is_ours(kind):
        return msgspec.json.decode(data, type=kind)
    fields = msgspec.json.decode(data, type=_Fields)
    made = {
        name: _decode_field(fields[name], hint)
        for name, hint in _hints(cast("type", kind)).items()
    }
    return kind(**made)


def _decode_field(data: msgspec.Raw, hint: object) -> object:
    if classes := _classes(hint):
        tagged = msgspec.json.decode(data, type=_Fields | None)
        if tagged is None:
            return None
        [(name, inner)] = tagged.items()
        return decoded(inner, classes[name])
    if hint is float and bytes(data).startswith(b'"'):
        return float(msgspec.json.decode(data, type=str))
    return decoded(data, cast("type[object]", hint))
