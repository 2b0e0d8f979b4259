"""Extreme values for every field of every message type, found from the types themselves.

A field that is added to a type is covered without anybody thinking of it. Values are JSON
tokens: also some that no encoder would write, and some that no decoder should read.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias, get_args

import msgspec
from msgspec import inspect

from common.wire.messages import Chunk, ChunkHeader, Message
from common.wire.tensor_blob import TensorEntry
from common.wire.tensors import ModelMeta, Stamp, UpdateMeta

Step: TypeAlias = str | int
Tree: TypeAlias = Any  # what becomes JSON; leaves may be msgspec.Raw
KEY = "<key>"  # the step to a key of a mapping

KINDS: tuple[type[msgspec.Struct], ...] = (
    *(kind for kind in get_args(Message) if kind is not Chunk),
    ChunkHeader,
    UpdateMeta,
    ModelMeta,
    TensorEntry,
    Stamp,
)
NUMBERS = (
    *(b"0", b"-1", b"1", b"-0.0", b"0.5", b"1e-320", b"5e-324", b"1e308", b"-1e308", b"1e400"),
    *(b"NaN", b"Infinity", b"-Infinity", b"1.7e308", b"1e30", b"1.0000001e30", b"-1e30"),
    *(str(2**at + more).encode() for at in (31, 32, 53, 63, 64) for more in (-1, 0, 1)),
    *(str(-(2**at)).encode() for at in (31, 53, 63)),
    *(b"1" + b"0" * 400, b"9" * 4300, b"1" + b"0" * 4300, b"-" + b"9" * 4301),
    b"0." + b"1" * 999,
)  # fmt: skip
STRINGS = (
    *(b'""', b'"x"', b'" "', b'"0"', b'"-1"', b'"@coordinator"', b'"../../x"', b'"/"', b'"+"'),
    *(b'"\\u0000"', b'"\\u001b[31m\\u0007"', b'"a\\nb\\r\\nc\\td"', b'"\\u202e\\u2066x"'),
    *(b'"\\ud800"', b'"\\udfff\\ud800"', b'"\xff\xfe"', b'"\xed\xa0\x80"', b'"\\ufeff"'),
    *(b'"[/x]"', b'"[red]"', b'"=HYPERLINK(1)"', b'"<script>x</script>"', b'"\\\\input{x}"'),
    *(b'"%s%n{0}"', '"é日本\U0001f600"'.encode(), b'"\\ud83d\\ude00"'),
)  # fmt: skip
OTHERS = (
    *(b"null", b"true", b"false", b"[]", b"{}", b"[0]", b"[-1]", b'["x"]', b"[[]]", b'{"x":0}'),
    *(b'{"x":{}}', b"[null]", b"[1,1,1]", b"", b"x", b"{", b'{"0":1,"0":2}'),
)  # fmt: skip
LARGE = (
    *(b'"' + b"x" * 70_000 + b'"', b'"' + b"\\u001b" * 9_000 + b'"'),
    *(b"[" * 5_000, b'{"a":' * 3_000),
    *(b"[" + b"0," * 60_000 + b"0]", b"7" * 60_000),
    b"{" + b",".join(b'"k%d":1' % at for at in range(4_000)) + b"}",
)  # fmt: skip


@dataclass(frozen=True)
class Site:
    """A place in a type where a value stands, and values to put there."""

    path: tuple[Step, ...]
    tokens: tuple[bytes, ...]


@cache
def sites(kind: type[msgspec.Struct]) -> tuple[Site, ...]:
    """All places in a type, fields of fields and elements included."""
    return tuple(_walk(inspect.type_info(kind), ()))


def _walk(info: inspect.Type, path: tuple[Step, ...]) -> Iterator[Site]:
    if path:
        yield Site(path, tokens(info))
    if isinstance(info, inspect.DictType):
        yield Site((*path, KEY), tokens(info.key_type))
    for step, part in _parts(info):
        yield from _walk(part, path if step is None else (*path, step))


def _parts(info: inspect.Type) -> Iterator[tuple[Step | None, inspect.Type]]:
    """What a type is made of; None is the step to a part of a union."""
    match info:
        case inspect.StructType():
            for at, field in enumerate(info.fields):
                step: Step = at if info.array_like else field.encode_name
                yield step, field.type
        case inspect.UnionType():
            for part in info.types:
                if not isinstance(part, inspect.NoneType):
                    yield None, part
        case inspect.VarTupleType() | inspect.ListType():
            yield 0, info.item_type
        case inspect.TupleType():
            for at, part in enumerate(info.item_types):
                yield at, part
        case inspect.DictType():
            yield next(iter(sample(info))), info.value_type
        case _:
            pass


@cache
def valid(kind: type[msgspec.Struct]) -> dict[str, Tree]:
    """A valid message of a kind, not to be changed."""
    values = sample(inspect.type_info(kind))
    assert isinstance(values, dict)
    return values


@cache
def largest(kind: type[msgspec.Struct]) -> dict[str, Tree]:
    """A message with the largest value in every field; huge ones where there is no bound."""
    values: dict[str, Tree] = _at_bounds(inspect.type_info(kind), largest=True)
    return values


@cache
def smallest(kind: type[msgspec.Struct]) -> dict[str, Tree]:
    """A message with the smallest value in every field."""
    values: dict[str, Tree] = _at_bounds(inspect.type_info(kind), largest=False)
    return values


def _at_bounds(info: inspect.Type, *, largest: bool) -> Tree:
    match info:
        case inspect.IntType():
            bound = info.le if largest else info.ge
            return (
                msgspec.Raw((b"" if largest else b"-") + b"9" * 4300)
                if bound is None
                else bound
            )
        case inspect.FloatType():
            limit = info.le if largest else info.ge
            return limit if limit is not None else 1.7e308 if largest else -1.7e308
        case inspect.StructType():
            fields = {f.encode_name: _at_bounds(f.type, largest=largest) for f in info.fields}
            return list(fields.values()) if info.array_like else _tag(info) | fields
        case inspect.UnionType():
            part = next(t for t in info.types if not isinstance(t, inspect.NoneType))
            return _at_bounds(part, largest=largest)
        case inspect.VarTupleType() | inspect.ListType():
            return [_at_bounds(info.item_type, largest=largest)] * largest
        case inspect.TupleType():
            return [_at_bounds(part, largest=largest) for part in info.item_types]
        case inspect.DictType():
            value = _at_bounds(info.value_type, largest=largest)
            return {str(sample(info.key_type)): value} if largest else {}
        case inspect.StrType() if largest and info.max_length:
            return "W" * info.max_length
        case inspect.BytesType() if largest and info.max_length:
            return _base64(info.max_length)
        case _:
            return sample(info)


def sample(info: inspect.Type) -> Tree:
    """A valid value of a type, with everything that is optional."""
    match info:
        case inspect.StructType():
            values = {field.encode_name: sample(field.type) for field in info.fields}
            return list(values.values()) if info.array_like else _tag(info) | values
        case inspect.UnionType():
            return sample(next(t for t in info.types if not isinstance(t, inspect.NoneType)))
        case inspect.VarTupleType() | inspect.ListType():
            return [sample(info.item_type)]
        case inspect.TupleType():
            return [sample(part) for part in info.item_types]
        case inspect.DictType():
            return {str(sample(info.key_type)): sample(info.value_type)}
        case inspect.RawType():
            return {}
        case _:
            return _simple_sample(info)


def _tag(info: inspect.StructType) -> dict[str, Tree]:
    return {} if info.tag_field is None else {info.tag_field: info.tag}


@cache
def variants(kind: type[msgspec.Struct]) -> dict[str, tuple[Tree, ...]]:
    """A valid value of each kind, for every field that may have one of several or none."""
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    found: dict[str, tuple[Tree, ...]] = {}
    for field in info.fields:
        types = field.type.types if isinstance(field.type, inspect.UnionType) else ()
        tagged = [t for t in types if isinstance(t, inspect.StructType) and t.tag_field]
        if tagged:
            found[field.encode_name] = tuple(map(sample, tagged))
    return found


def _base64(count: int) -> str:
    """So many bytes, as JSON has them."""
    return base64.b64encode(b"W" * count).decode()


def _simple_sample(info: inspect.Type) -> Tree:
    match info:
        case inspect.LiteralType():
            return info.values[0]
        case inspect.StrType():
            fits = (s for s in ("x", "0" * 32) if re.search(info.pattern or "", s))
            return next(fits)
        case inspect.BytesType():
            return _base64(info.min_length or 0)
        case inspect.BoolType():
            return True
        case inspect.IntType() | inspect.FloatType():
            return max(1, info.ge or 0) if info.le is None or info.le >= 1 else info.le
        case _:
            raise AssertionError(f"a type that is new here: {info}")


def tokens(info: inspect.Type) -> tuple[bytes, ...]:
    """The bounds of a type exactly and just beyond, and what is extreme everywhere."""
    return (*_bounds(info), *NUMBERS, *STRINGS, *OTHERS)


def _bounds(info: inspect.Type) -> tuple[bytes, ...]:
    found: list[object] = []
    match info:
        case inspect.IntType() | inspect.FloatType():
            limits = [b for b in (info.ge, info.gt, info.le, info.lt) if b is not None]
            for limit in limits:
                found += [limit, limit - 1, limit + 1, 2 * limit, float(limit)]
                found += [math.nextafter(limit, math.inf), math.nextafter(limit, -math.inf)]
        case inspect.StrType():
            for length in {info.max_length or 120, 64, 119, 120, 121}:
                found += ["a" * length, "a" * (length + 1), "é" * length]
        case inspect.VarTupleType() | inspect.ListType():
            element = sample(info.item_type)
            lengths = {min(info.max_length or 300, 300), 65}
            found += [[element] * n for length in lengths for n in (length, length + 1)]
        case inspect.DictType():
            value = sample(info.value_type)
            keys = [f"{at}" for at in range((info.max_length or 300) % 1000 + 2)]
            found += [dict.fromkeys(keys[:-1], value), dict.fromkeys(keys, value)]
        case inspect.LiteralType():
            found += [*info.values]
        case inspect.UnionType():
            return tuple(token for part in info.types for token in _bounds(part))
        case _:
            pass
    return tuple(msgspec.json.encode(value) for value in found)
