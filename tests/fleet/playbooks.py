"""The control machine of the fleet test: inventory, playbooks, the run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common.data.shards import ShardSet
from common.experiment.file import load_experiment
from fl_server.run.journal import read_records
from tests.e2e.rig import Rig, eventually
from tests.fleet.lab import FOLDER, USER, Lab

ROOT = Path(__file__).resolve().parents[2]
BROKER, BOARDS = "hub", ("b1", "b2", "b3")
ROUNDS = 200  # long enough for deploy.yml to go round the boards meanwhile
EXPERIMENT = f"""
[experiment]
rounds = {ROUNDS}
grace = "forever"
[model]
name = "dnn"
[data]
clients = 6
alpha = 1.0
[training]
epochs = 1
batch_size = 50
"""
INVENTORY = """
all:
  vars:
    ansible_user: {user}
    ansible_ssh_private_key_file: {key}
    ansible_ssh_common_args: {options}
    fedbed_source: {source}
    fedbed_wheelhouse: {wheels}
    broker_credentials: {folder}/credentials
    broker_collected: {folder}/collected
    fl_client_collected: {folder}/collected
    fl_client_shards: {folder}/shards
    fl_client_watchdog_seconds: 10
  children:
    broker:
      hosts:
        hub: {{ansible_host: {hub}}}
    boards:
      vars:
        fl_client_count: 2
      children:
        raspberry_pi:
          hosts:
            b1: {{ansible_host: {b1}, fl_client_clients: "0-1"}}
        generic:
          hosts:
            b2: {{ansible_host: {b2}}}
            b3: {{ansible_host: {b3}}}
"""


class Control:
    """Somebody at a laptop, with a checkout of their own."""

    def __init__(
        self, lab: Lab, folder: Path, machines: Mapping[str, str] | None = None
    ) -> None:
        """`machines`: which machine has which place in the inventory; else its own."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        self._folder = folder
        self._rig = Rig(0, folder)
        self.source = folder / "checkout"
        listed = subprocess.run(
            ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        for name in filter(lambda name: (ROOT / name).is_file(), listed.stdout.split()):
            (self.source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.source / name)
        self._experiment = folder / "tiny.toml"
        self._experiment.write_text(EXPERIMENT)
        ShardSet(folder / "shards", load_experiment(self._experiment)).ensure(range(6))
        (folder / "inventory.yml").write_text(
            INVENTORY.format(
                user=USER,
                key=lab.key,
                options=" ".join(lab.ssh_options()),
                source=self.source,
                wheels=wheels(),
                folder=folder,
                **{
                    place: lab.machines[name].address
                    for place, name in (
                        machines or {name: name for name in lab.machines}
                    ).items()
                },
            )
        )

    eventually = staticmethod(eventually)
    installed_file = "/opt/fedbed/venv/lib/python3.11/site-packages/fl_client/__init__.py"

    def play(self, playbook: str, *options: str) -> str:
        """Run a playbook; what it printed."""
        process = self._start(playbook, playbook, *options)
        if process.wait() != 0:
            raise RuntimeError(f"{playbook} failed:\n{self.log(playbook)[-4000:]}")
        return self.log(playbook)

    def _start(self, log: str, *arguments: str) -> subprocess.Popen[bytes]:
        own = Path(sys.executable).with_name("ansible-playbook")
        program = str(own) if own.exists() else shutil.which("ansible-playbook")
        if program is None:
            raise RuntimeError("ansible-playbook is missing; install ansible-core")
        with (self._folder / f"{log}.log").open("wb") as output:
            return subprocess.Popen(
                [program, "-i", str(self._folder / "inventory.yml"), *arguments],
                cwd=self.source / "ansible",
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={
                    **os.environ,
                    "ANSIBLE_NOCOLOR": "1",
                    "ANSIBLE_HOST_KEY_CHECKING": "False",
                },
            )

    def log(self, name: str) -> str:
        """What a playbook has printed so far."""
        return (self._folder / f"{name}.log").read_text(errors="replace")

    def changes(self, playbook: str, *options: str) -> int:
        """How many tasks of a playbook changed something."""
        recap = self.play(playbook, *options).partition("PLAY RECAP")[2]
        return sum(int(number) for number in re.findall(r"changed=(\d+)", recap))

    def simulate(self) -> str:
        """The digest of the experiment without network and disturbance."""
        where = ("--run", "sim", "--runs", str(self._folder / "runs"), "--plain")
        process = self._rig.start("sim", "fl_server", "simulate", str(self._experiment), *where)
        assert process.wait(300) == 0, self._rig.log("sim")
        return self._rig.digest("sim")

    def start_run(self) -> subprocess.Popen[bytes]:
        """The same experiment on the fleet, in the background."""
        values = {
            "experiment": self._experiment,
            "run_name": "r",
            "run_folder": self._folder / "runs",
            "run_credentials": self._folder / "credentials" / "server.toml",
            "run_fl_server": Path(sys.executable).with_name("fl-server"),
        }
        options = [word for key, value in values.items() for word in ("-e", f"{key}={value}")]
        return self._start("run", "run.yml", *options)

    def round(self) -> int:
        """The round that is open."""
        events: list[dict[str, Any]] = []
        if (path := self._folder / "runs" / "r" / "events.jsonl").exists():
            events = read_records(path)
        return max((event.get("round") or 0 for event in events), default=0)

    def wait_for_round(self, number: int, run: subprocess.Popen[bytes]) -> None:
        """Wait until the run has come so far."""

        def there() -> bool:
            assert run.poll() is None, f"the run ended too early:\n{self.log('run')[-2000:]}"
            return self.round() >= number

        eventually(there, f"round {number}", 180)

    def change_code(self) -> None:
        """A new version of the code, which does the same."""
        with (self.source / "fl_client" / "__init__.py").open("a") as file:
            file.write("# changed\n")

    def digest(self) -> str:
        """The model of the run on the fleet."""
        return self._rig.digest("r")

    def collected(self, machine: str, name: str) -> Path:
        """A file that collect.yml brought."""
        return self._folder / "collected" / machine / name


def wheels() -> Path:
    """All wheels of the machines, downloaded once for these constraints."""
    folder = FOLDER / "wheels"
    constraints = (ROOT / "constraints.txt").read_text()
    stamp = folder.with_suffix(".stamp")
    if not stamp.exists() or stamp.read_text() != constraints:
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([ROOT / "scripts" / "wheelhouse.sh", folder], check=True)
        stamp.write_text(constraints)
    return folder
