"""Writes the files requirements-*.txt: all packages that are installed, with their hashes.

    .venv/bin/python scripts/hashes.py [--wheels DIR]

Versions are those of constraints.txt, hashes those that PyPI lists for the wheels of 64-bit
Linux (x86-64 and ARM). torch is apart: PyPI has CUDA builds only, which need gigabytes of other
packages, so DIR holds the CPU builds to be hashed. What boards install is in common/install:
-board.txt, and -arm64.txt with the versions of torch_versions.txt. Run it when a version
changes.
"""

from __future__ import annotations

import argparse
import hashlib
import html
import importlib.metadata
import re
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INSTALL = ROOT / "common" / "install"
INDEX = "https://pypi.org/simple"
PYTHONS = ("cp310", "cp311", "cp312", "cp313", "cp314")
MACHINES = ("x86_64", "aarch64")
ALWAYS = ("setuptools", "tomli")  # builds the package; Python 3.10 has no tomllib
_LINK = re.compile(r'href="[^"#]*/([^"#/]+\.whl)#sha256=([0-9a-f]{64})"')
_HEAD = """\
# Written by scripts/hashes.py from constraints.txt; changes here are lost.
#   pip install --require-hashes --no-deps -r {name}
"""


def normal(name: str) -> str:
    """One way of writing each name of a package."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins() -> dict[str, list[str]]:
    """Package -> its lines in constraints.txt: one, or one per version of Python."""
    found: dict[str, list[str]] = {}
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if "==" in line and not line.startswith("#"):
            found.setdefault(normal(line.split("==")[0]), []).append(line)
    return found


def needed(names: Iterable[str], pinned: Iterable[str]) -> set[str]:
    """These packages and all that they need, as installed here."""
    found: set[str] = set()
    queue = [normal(name) for name in names]
    while queue:
        name = queue.pop()
        if name in found or name not in pinned:
            continue
        found.add(name)
        try:
            required = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:  # not for this Python
            required = []
        names_of = (
            re.match(r"[A-Za-z0-9._-]+", text) for text in required if "extra" not in text
        )
        queue += [normal(match[0]) for match in names_of if match]
    return found


def wheels(name: str) -> list[tuple[str, str]]:
    """File names and hashes of all wheels of a package."""
    with urllib.request.urlopen(f"{INDEX}/{name}/", timeout=60) as answer:  # noqa: S310 - https
        page = html.unescape(answer.read().decode())
    return _LINK.findall(page)


def fits(file: str, name: str, version: str) -> bool:
    """A wheel of that version for a 64-bit Linux with glibc and a Python of ours."""
    project, number, *_, python, abi, system = file.removesuffix(".whl").split("-")
    if (normal(project), number) != (name, version):
        return False
    stable = abi == "abi3" or python.startswith("py")
    return (stable or (python in PYTHONS and abi == python)) and (
        system == "any" or ("manylinux" in system and system.endswith(MACHINES))
    )


def local(folder: Path, name: str, version: str) -> Iterator[str]:
    """Hashes of the CPU builds in a folder."""
    for path in sorted(folder.glob(f"{name}-{version}+cpu-*.whl")):
        yield hashlib.sha256(path.read_bytes()).hexdigest()


def requirement(line: str, name: str, folder: Path | None = None) -> str:
    """One line of constraints.txt with the hashes of PyPI, or of a folder."""
    version = line.split("==")[1].split(";")[0].strip()
    if folder is None:
        found = {digest for file, digest in wheels(name) if fits(file, name, version)}
    else:
        found = set(local(folder, name, version))
    if not found:
        raise SystemExit(f"{folder or INDEX} has no wheel for {line}")
    return " \\\n".join([line, *(f"    --hash=sha256:{digest}" for digest in sorted(found))])


def main() -> None:
    """Write all of them."""
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--wheels", type=Path, help="folder with CPU builds of torch for x86-64"
    )
    folder = parser.parse_args().wheels
    pinned = pins()
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    block = re.search(r"^dependencies = \[(.*?)^\]", text, re.S | re.M)
    assert block is not None, "pyproject.toml lists dependencies"
    ours = [*re.findall(r'^  "([A-Za-z0-9_.-]+)', block[1], re.M), *ALWAYS]
    board = needed(ours, pinned) - {"torch"}
    broker = needed([*(set(ours) - {"torch"}), "cryptography"], pinned)
    lines = {
        name: [requirement(line, name) for line in pinned[name]]
        for name in sorted(board | broker)
    }
    torch = pinned["torch"][0].replace("==", " ")  # install.sh reads it here
    found = [line for name in sorted(board) for line in lines[name]]
    write("board", [f"# {torch}", *found], INSTALL)
    write("arm64", [requirement(line, line.split("==")[0]) for line in for_arm64()], INSTALL)
    write("broker", [line for name in sorted(broker) for line in lines[name]])
    if folder is not None:
        write("torch", [requirement(line, "torch", folder) for line in pinned["torch"]])


def for_arm64() -> list[str]:
    """The versions of torch and numpy that the table of torch versions names."""
    rows = (INSTALL / "torch_versions.txt").read_text(encoding="utf-8").splitlines()
    named = [row.split()[5:7] for row in rows if row.startswith("use  aarch64")]
    found = {f"torch=={torch}" for torch, _ in named}
    return sorted(found | {f"numpy=={numpy}" for _, numpy in named if numpy != "-"})


def write(what: str, lines: list[str], folder: Path = ROOT) -> None:
    """One of the files."""
    name = f"requirements-{what}.txt"
    body = "".join(f"{line}\n" for line in lines)
    (folder / name).write_text(_HEAD.format(name=name) + body, encoding="utf-8")


if __name__ == "__main__":
    main()
