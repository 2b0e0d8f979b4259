"""The example with a folder of pictures and a pretrained network, on a smaller scale."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from fl_server.cli import main

EXAMPLE = Path(__file__).parents[2] / "examples" / "own" / "images"
SMALL = ("experiment.rounds=1", "data.clients=2", "data.partition=iid", "training.epochs=1")


@pytest.mark.slow
def test_a_pretrained_network_of_torchvision_learns_from_a_folder_of_pictures(
    tmp_path: Path,
) -> None:
    words = ["--folder", str(tmp_path), "--pictures", "6", "--epochs", "1"]
    subprocess.run([sys.executable, str(EXAMPLE / "make.py"), *words], check=True)
    file = tmp_path / "images.toml"
    shutil.copy(EXAMPLE / "images.toml", file)
    settings = [word for each in SMALL for word in ("--set", each)]
    runs = tmp_path / "runs"
    done = CliRunner().invoke(
        main, ["simulate", str(file), "--run", "r", "--runs", str(runs), "-q", *settings]
    )
    assert done.exit_code == 0, done.stderr
    events = [json.loads(line) for line in (runs / "r/events.jsonl").read_text().splitlines()]
    (start,) = [event["text"] for event in events if event["event"] == "start"]
    assert start.startswith(f"warm start from {tmp_path / 'weights.safetensors'}: took 242 ")
    assert start.endswith("drew head.3.weight (there (6, 1024)), head.3.bias (there (6,))")
    assert [event["updates"] for event in events if event["event"] == "round_closed"] == [2]
