"""What boards and brokers install, with hashes: complete, and of the pinned versions."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PIN = re.compile(r"^([A-Za-z0-9_.-]+)==[^\\\n]*?(?= \\\n|\n)", re.M)


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(file: str) -> dict[str, set[str]]:
    """Package -> its lines, without hashes."""
    found: dict[str, set[str]] = {}
    for match in PIN.finditer((ROOT / file).read_text()):
        found.setdefault(normal(match[1]), set()).add(match[0])
    return found


@pytest.mark.parametrize("what", ["board", "broker", "torch"])
def test_the_versions_are_the_pinned_ones_and_each_has_a_hash(what: str) -> None:
    file = f"requirements-{what}.txt"
    wanted, found = pins("constraints.txt"), pins(file)
    assert {name: wanted[name] for name in found} == found, "run scripts/hashes.py"
    for block in (ROOT / file).read_text().split("\n#")[-1].split("\n")[1:]:
        assert re.fullmatch(r"[A-Za-z].*==.* \\|    --hash=sha256:[0-9a-f]{64}( \\)?|", block)


@pytest.mark.parametrize(("what", "apart"), [("board", {"torch"}), ("broker", {"torch"})])
def test_nothing_that_is_needed_is_missing(what: str, apart: set[str]) -> None:
    """With --no-deps, pip installs what is listed and nothing else."""
    listed, pinned = pins(f"requirements-{what}.txt"), pins("constraints.txt")
    roots = {"torch"} if what == "board" else {"cryptography"}
    for name in {*listed, *roots}:
        try:
            required = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # not for this Python
        names = {
            normal(re.split(r"[^A-Za-z0-9._-]", text)[0])
            for text in required
            if "extra" not in text
        }
        assert names & set(pinned) <= {*listed, *apart}, name


def test_containers_have_limits_and_boards_share_nothing() -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    assert text.count("mem_limit:") == 3, "broker, server, and all boards"
    assert text.count("pids_limit:") == 1, "of all"
    boards = re.findall(r"  board-(\d):\n    <<: \*board\n    volumes: \[(.*)\]", text)
    assert boards == [(n, f'"bundle-{n}:/bundle:ro", "state-{n}:/state"') for n in "1234"]
