"""What boards and brokers install, with hashes: complete, and of the pinned versions."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

import pytest

from common.install.torch_versions import TABLE, read_rows

ROOT = Path(__file__).resolve().parent.parent
FILES = {
    "board": "common/install/requirements-board.txt",
    "broker": "requirements-broker.txt",
    "torch": "requirements-torch.txt",
}
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
    file = FILES[what]
    wanted, found = pins("constraints.txt"), pins(file)
    assert {name: wanted[name] for name in found} == found, "run scripts/hashes.py"
    for block in (ROOT / file).read_text().split("\n#")[-1].split("\n")[1:]:
        assert re.fullmatch(r"[A-Za-z].*==.* \\|    --hash=sha256:[0-9a-f]{64}( \\)?|", block)


@pytest.mark.parametrize(("what", "apart"), [("board", {"torch"}), ("broker", {"torch"})])
def test_nothing_that_is_needed_is_missing(what: str, apart: set[str]) -> None:
    """With --no-deps, pip installs what is listed and nothing else."""
    listed, pinned = pins(FILES[what]), pins("constraints.txt")
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


def test_what_arm64_boards_install_besides_has_hashes() -> None:
    rows = read_rows(TABLE.read_text())
    named = {f"torch=={row.pins['torch']}" for row in rows if row.pins["torch"] != "-"}
    named |= {f"numpy=={row.pins['numpy']}" for row in rows if row.pins["numpy"] != "-"}
    listed = pins("common/install/requirements-arm64.txt")
    assert named == set().union(*listed.values()), "run scripts/hashes.py"


def test_the_installer_knows_the_pinned_torch() -> None:
    (torch,) = pins("constraints.txt")["torch"]
    said = f"# {torch.replace('==', ' ')}\n"
    assert said in (ROOT / FILES["board"]).read_text(), "run scripts/hashes.py"


def test_containers_have_limits_and_boards_share_nothing() -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    assert text.count("mem_limit:") == 3, "broker, server, and all boards"
    assert text.count("pids_limit:") == 1, "of all"
    boards = re.findall(r"  board-(\d):\n    <<: \*board\n    volumes: \[(.*)\]", text)
    assert boards == [(n, f'"bundle-{n}:/bundle:ro", "state-{n}:/state"') for n in "1234"]
