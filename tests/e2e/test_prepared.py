"""Prepared shards stand in for the dataset: on boards and in simulations that lack it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.e2e.rig import PATIENCE, Rig, eventually

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def prepared(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Prepared shards; from now on processes are of an installation without the dataset."""
    out = rig.folder / "out"
    process = rig.start(
        "prepare", "fl_server", "data", "prepare", str(rig.folder / "tiny.toml"), "-o", str(out)
    )
    assert process.wait(PATIENCE) == 0, rig.log("prepare")
    tree = rig.folder / "tree"
    for package in ("broker", "common", "fl_client", "fl_server"):
        ignored = shutil.ignore_patterns("fmnist_mini", "__pycache__")
        shutil.copytree(ROOT / package, tree / package, ignore=ignored)
    monkeypatch.setenv("PYTHONPATH", str(tree))
    rig.fork_server = None  # it has the dataset
    (rig.folder / "home").write_text("a file, so that nothing can be downloaded to below it")
    monkeypatch.setenv("HOME", str(rig.folder / "home"))
    return out / str(json.loads((out / "manifest.json").read_text())["key"])


def test_a_simulation_and_a_board_need_no_dataset_when_they_have_the_shards(
    rig: Rig, prepared: Path
) -> None:
    refused = rig.start(
        *("refused", "fl_server", "simulate", str(rig.folder / "tiny.toml")),
        *("--runs", str(rig.runs), "--plain"),
    )
    assert refused.wait(PATIENCE) == 1
    assert "fmnist-mini is not in" in rig.log("refused")

    shutil.copytree(prepared, rig.runs / ".shards" / prepared.name)
    simulated = rig.simulate_apart()

    for board, clients in (("b1", (0, 1)), ("b2", (2, 3))):
        shards = rig.folder / board / "shards" / prepared.name
        shards.mkdir(parents=True)
        for client in clients:
            shutil.copy(prepared / f"client-{client}.safetensors", shards)
        rig.daemon(board, ",".join(map(str, clients)))
    rig.finish(rig.coordinator())
    assert rig.digest() == simulated


def test_a_board_that_has_neither_dataset_nor_shards_says_so(rig: Rig, prepared: Path) -> None:
    assert prepared.exists()
    rig.daemon("b1", "0-3")
    rig.coordinator()
    eventually(lambda: "fmnist-mini is not in" in rig.log("server"), "the board's problem")
