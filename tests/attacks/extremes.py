"""Messages with extreme values in every field, the same for the same seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from common import VERSION
from common.rng import generator
from common.wire.messages import PROTOCOL
from tests.attacks.type_values import (
    KEY,
    LARGE,
    Site,
    Step,
    Tree,
    largest,
    sites,
    smallest,
    valid,
    variants,
)


class Hostile:
    """Makes them."""

    def __init__(self, seed: int) -> None:
        self._rng = generator(seed, "hostile")
        self._singles: dict[type[msgspec.Struct], Iterator[tuple[Site, bytes]]] = {}
        self.covered: set[tuple[type[msgspec.Struct], tuple[Step, ...]]] = set()

    def pick(self, below: int) -> int:
        return int(self._rng.random() * below)

    def chance(self, share: float) -> bool:
        return float(self._rng.random()) < share

    def message(self, kind: type[msgspec.Struct], known: Mapping[str, Tree]) -> bytes:
        """A message of a kind: valid, with these fields, but for none to a few places."""
        few = 1 + self.pick(3) * self.chance(0.4)
        base, way = valid(kind), self._rng.random()
        if way < 0.3:  # a credible lie: as large or as small as it may be, in every field
            base, few = (largest(kind) if way < 0.2 else smallest(kind)), 0
        elif way < 0.35:
            few = 0
        for name, values in variants(kind).items():
            if self.chance(0.7):
                base = base | {name: (None, None, *values)[self.pick(len(values) + 2)]}
        tree: Tree = base | {
            name: value for name, value in known.items() if name in kind.__struct_fields__
        }
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
        "protocol": PROTOCOL,
        "version": VERSION,
        "run": run,
        "round": round_number,
        "client": client,
        "board": board,
        "instance": f"i-{board}",
        "clients": [client],
    }
