"""Extreme values for every field of every message type, found from the types themselves.

A field that is added to a type is covered without anybody thinking of it. Values are JSON
tokens: also some that no encoder would write, and some that no decoder should read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias, get_args

import msgspec
from msgspec import inspect

from common import VERSION
from common.rng import generator
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


def sample(info: inspect.Type) -> Tree:
    """A valid value of a type, with everything that is optional."""
    match info:
        case inspect.StructType():
            values = {field.encode_name: sample(field.type) for field in info.fields}
            return list(values.values()) if info.array_like else values
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


def _simple_sample(info: inspect.Type) -> Tree:
    match info:
        case inspect.LiteralType():
            return info.values[0]
        case inspect.StrType():
            fits = (s for s in ("x", "0" * 32) if re.search(info.pattern or "", s))
            return next(fits)
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


class Hostile:
    """Messages with extreme values; the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._rng = generator(seed, "hostile")
        self._singles: dict[type[msgspec.Struct], Iterator[tuple[Site, bytes]]] = {}
        self.covered: set[tuple[type[msgspec.Struct], tuple[Step, ...]]] = set()

    def pick(self, below: int) -> int:
        return int(self._rng.random() * below)

    def chance(self, share: float) -> bool:
        return float(self._rng.random()) < share

    def message(self, kind: type[msgspec.Struct], known: Mapping[str, Tree]) -> bytes:
        """A message of a kind: valid, with these fields, but for one or a few places."""
        tree: Tree = valid(kind) | {
            name: value for name, value in known.items() if name in kind.__struct_fields__
        }
        few = 1 + self.pick(3) * self.chance(0.4)
        for at in range(few):
            site, token = self._next(kind) if at == 0 else self._any(kind)
            tree = self._changed(tree, site.path, token)
            if isinstance(tree, msgspec.Raw):
                break
        return msgspec.json.encode(tree)

    def _next(self, kind: type[msgspec.Struct]) -> tuple[Site, bytes]:
        """All places with all values, one after the other, again and again."""
        while True:
            if kind not in self._singles:
                found = [(site, token) for site in sites(kind) for token in site.tokens]
                order = self._rng.permutation(len(found))
                self._singles[kind] = (found[at] for at in order)
            site = next(self._singles[kind], None)
            if site is not None:
                self.covered.add((kind, site[0].path))
                return site
            del self._singles[kind]

    def _any(self, kind: type[msgspec.Struct]) -> tuple[Site, bytes]:
        places = sites(kind)
        site = places[self.pick(len(places))]
        values = LARGE if self.chance(0.02) else site.tokens
        return site, values[self.pick(len(values))]

    def _changed(self, tree: Tree, path: tuple[Step, ...], token: bytes) -> Tree:
        way = self._rng.random()
        if way < 0.9:
            return placed(tree, path, token)
        return removed(tree, path) if way < 0.95 else repeated(tree, path, token)


def placed(tree: Tree, path: tuple[Step, ...], token: bytes) -> Tree:
    """The tree with a token in a place; as it is if the place is not there any more."""
    if not path:
        return msgspec.Raw(token)
    step, *rest = path
    if step == KEY and isinstance(tree, dict) and tree:
        name = token if token[:1] == b'"' else b'"' + token + b'"'
        value = msgspec.json.encode(next(iter(tree.values())))
        return msgspec.Raw(b"{" + name + b":" + value + b"}")
    if isinstance(tree, dict) and step in tree:
        return {**tree, step: placed(tree[step], tuple(rest), token)}
    if isinstance(tree, list) and isinstance(step, int) and step < len(tree):
        return [*tree[:step], placed(tree[step], tuple(rest), token), *tree[step + 1 :]]
    return tree


def removed(tree: Tree, path: tuple[Step, ...]) -> Tree:
    """The tree without a place."""
    step, *rest = path
    if isinstance(tree, dict) and step in tree:
        if rest:
            return {**tree, step: removed(tree[step], tuple(rest))}
        return {name: value for name, value in tree.items() if name != step}
    if isinstance(tree, list) and isinstance(step, int) and step < len(tree):
        kept = [removed(tree[step], tuple(rest))] if rest else []
        return [*tree[:step], *kept, *tree[step + 1 :]]
    return tree


def repeated(tree: Tree, path: tuple[Step, ...], token: bytes) -> Tree:
    """The tree with a key twice, and with a key that nobody knows."""
    step, *rest = path
    if not isinstance(tree, dict) or step not in tree:
        return tree
    if rest:
        return {**tree, step: repeated(tree[step], tuple(rest), token)}
    inside = msgspec.json.encode(tree)[1:-1]
    twice = msgspec.json.encode(step) + b":" + token
    return msgspec.Raw(b"{" + twice + b"," + inside + b',"unknown":' + token + b"}")


def known_fields(run: str, round_number: int, client: int, board: str) -> dict[str, Tree]:
    """What makes a message one of this run, round, client and board."""
    return {
        "protocol": 1,
        "version": VERSION,
        "run": run,
        "round": round_number,
        "client": client,
        "board": board,
        "instance": f"i-{board}",
        "clients": [client],
    }
