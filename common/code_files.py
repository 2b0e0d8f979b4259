"""Which files of users' code an experiment needs, and whether two machines have the same ones.

Found by reading, not by importing: the file that is named, and what it imports from its own
folder (or, if it is installed, from its own package), wherever in the file that stands.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from common.errors import ConfigError
from common.plugins import OURS, code_folder, file_of

MOST_FILES = 1000


def digests_of(places: Iterable[str]) -> dict[str, str]:
    """File -> digest, for functions at `file.py:name` or `package.module:name`."""
    found: dict[str, str] = {}
    for place in places:
        source = place.rpartition(":")[0]
        root, first, top = _start(place, source)
        for path in _reachable(root, first, top):
            name = path.relative_to(root).as_posix()
            found[name] = _digest(path)
    return dict(sorted(found.items()))


def difference(expected: Mapping[str, str], found: Mapping[str, str]) -> str:
    """How the code here differs from the coordinator's, as a sentence; empty if not at all."""
    missing = sorted(expected.keys() - found.keys())
    where = code_folder() or "this machine"
    if missing:
        return f"the experiment needs {_listed(missing)}, which is not in {where}"
    other = sorted(name for name in expected if found[name] != expected[name])
    if other:
        return f"{_listed(other)} in {where} is another version than the coordinator's"
    more = sorted(found.keys() - expected.keys())
    return f"{_listed(more)} in {where} is used here only" if more else ""


def changed(old: Mapping[str, str], new: Mapping[str, str]) -> str:
    """Which files differ between two starts of a run, as a list."""
    return _listed(sorted(name for name in {*old, *new} if old.get(name) != new.get(name)))


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def _start(place: str, source: str) -> tuple[Path, list[Path], str]:
    """Root of the search, the files to begin with, and the only package to follow (or "")."""
    if source.endswith(".py"):
        path = file_of(repr(place), source)
        return path.parents[len(Path(source).parts) - 1], [path], ""
    folder, top = code_folder(), source.partition(".")[0]
    if folder is not None and (files := list(_files(folder, source))):
        return folder, files, ""
    try:
        spec = importlib.util.find_spec(top)
    except ValueError:
        spec = None
    if spec is None or spec.origin is None:
        raise ConfigError(f"{place!r} is neither in {folder or 'a code folder'} nor installed")
    origin = Path(spec.origin)
    root = origin.parents[1] if origin.name == "__init__.py" else origin.parent
    return root, list(_files(root, source)), top


def _reachable(root: Path, first: list[Path], top: str) -> list[Path]:
    known, waiting = set(first), list(first)
    while waiting and len(known) < MOST_FILES:
        path = waiting.pop()
        for name in _imports(path, root):
            if top and name.partition(".")[0] != top:
                continue
            for file in _files(root, name):
                if file not in known:
                    known.add(file)
                    waiting.append(file)
    return sorted(known)


def _files(root: Path, name: str) -> Iterator[Path]:
    """The files that importing a dotted name reads, as far as they are below the root."""
    place, parts = root, name.split(".")
    if not name or parts[0] in sys.stdlib_module_names or parts[0] in OURS:
        return
    for part in parts:
        if (place / f"{part}.py").is_file():
            yield place / f"{part}.py"
            return
        place = place / part
        if (place / "__init__.py").is_file():
            yield place / "__init__.py"


def _imports(path: Path, root: Path) -> Iterator[str]:
    """The dotted names that a file imports."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return
    package = path.relative_to(root).parts[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*start, *([node.module] if node.module else [])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def _digest(path: Path) -> str:
    text = path.read_bytes().replace(b"\r\n", b"\n")
    return hashlib.blake2b(text, digest_size=16).hexdigest()
