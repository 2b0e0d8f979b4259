"""From a bare arm64 system to a trained model, on emulated boards: python -m tests.arm (root).

On each CPU: install.sh from a wheelhouse; `fl-client doctor` with the right torch and with one
that dies there; runs of an x86 board with the emulated one: undisturbed, with its daemon killed
and so from prepared shards. They must end with the same bits. The Cortex-A57 gets what a
Jetson Nano gets: its system says that its C library is that of JetPack 4.6.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path

from broker.accounts import prepare_files
from broker.authority import ensure_certificate
from broker.config import BrokerConfig
from broker.process import Broker
from common.install.kit import NAME, write_kit
from common.install.torch_versions import TABLE, Machine, choose, read_deaths
from common.program.ports import free_port
from tests.arm.emulation import FOLDER, PARTS, Emulation
from tests.conftest import Guarded
from tests.e2e.guarded_rig import GuardedRig
from tests.e2e.rig import eventually

PROJECT = Path(__file__).resolve().parents[2]
PYTHON, GLIBC = "3.11", "2.36"  # of Debian 12
TOLD = {"cortex-a57": "2.27"}  # the C library that install.sh sees, if another: JetPack's
MINUTES = 20.0  # for one run: each training takes many times longer than on the board
ROUNDS, KILLED_IN = 4, 2
EXPERIMENT = f"""
[experiment]
rounds = {ROUNDS}
grace = "forever"
[model]
name = "dnn"
[data]
clients = 4
alpha = 1.0
[training]
epochs = 1
batch_size = 50
"""
DAEMON = ("fl-client", "run", "--credentials", "/etc/fedbed/credentials.toml")


class Test:
    """The steps, each with the seconds since the start."""

    def __init__(self, board: Emulation, rig: GuardedRig) -> None:
        self._board, self._rig = board, rig
        self._started = time.monotonic()
        self._runs = 0

    def say(self, text: str) -> None:
        sys.stdout.write(f"{time.monotonic() - self._started:5.0f} s  {text}\n")
        sys.stdout.flush()

    def _run(self, name: str, *command: str, **settings: str) -> tuple[int, str]:
        return self._board.run(self._rig.folder / f"{name}.log", *command, **settings)

    def install(self) -> None:
        """By the kit, as a person would do it; then a second time."""
        home, glibc = self._board.root / "root", TOLD.get(self._board.cpu, GLIBC)
        shutil.copy(self._rig.bundle("pi", "2-3"), home / "pi.toml")
        shutil.unpack_archive(write_kit(self._rig.folder), home)
        shutil.rmtree(home / NAME / "wheels", ignore_errors=True)
        shutil.copytree(_wheels(glibc), home / NAME / "wheels")
        if glibc != GLIBC:
            self._board.put_program("getconf", f"echo glibc {glibc}")
        command = ("sh", f"/root/{NAME}/install.sh", "/root/pi.toml", "--workers", "1")
        code, printed = self._run("install", *command)
        assert code == 0, printed
        assert "no systemd here, so no service" in printed
        assert f"torch {_right(glibc)}" in printed
        sys.stdout.write("".join(f"         | {line}\n" for line in printed.splitlines()))
        self.say(f"install.sh with glibc {glibc}: a doctor that is content")
        code, printed = self._run("install", *command)
        assert code == 0, printed
        assert "install: 0 changes" in printed, printed
        self.say("install.sh again: 0 changes")

    def doctor(self, wrong: Path, version: str) -> None:
        """With the right torch, and with one that dies here."""
        code, printed = self._run("doctor", "fl-client", "doctor", "--json")
        assert code == 0, printed
        torch = _findings(printed)["torch"]
        assert torch["level"] == "ok", torch
        assert f"torch {_right(TOLD.get(self._board.cpu, GLIBC))}" in torch["found"]
        self.say(f"doctor: ok, {torch['found']}")
        where = f"/{wrong.relative_to(self._board.root)}"
        code, printed = self._run("doctor", "fl-client", "doctor", "--json", PYTHONPATH=where)
        assert code == 1, printed
        torch = _findings(printed)["torch"]
        assert "dies with an illegal instruction" in torch["found"], torch
        assert f"install torch {_right(GLIBC)}" in torch["advice"], torch
        self.say(f"doctor with torch {version}: {torch['found']} -> {torch['advice']}")

    def train(self, *, kill: bool = False, shards: Path | None = None) -> str:
        """One run of an x86 board and this one; the model's digest."""
        self._runs += 1
        run, rig = f"run-{self._runs}", self._rig
        state = self._board.root / "var/lib/fedbed"
        _empty(state, shards, (2, 3))
        _empty(rig.folder / "pc", shards, (0, 1))
        pc = rig.daemon("pc", "0-1")
        pi = self._start_daemon()
        server = rig.coordinator("--run", run, name=run)
        if kill:
            eventually(lambda: self._round(run) >= KILLED_IN, "rounds", 60 * MINUTES)
            pi.kill()
            pi.wait()
            pi = self._start_daemon()
        assert server.wait(60 * MINUTES) == 0, rig.log(run)
        for process in (pc, pi):
            process.terminate()
            process.wait(60)
        found = rig.digest(run)
        how = f"{'kill -9 in the middle' if kill else 'undisturbed'}"
        how += ", from prepared shards" if shards else ""
        self.say(f"{self._board.cpu} with x86, {ROUNDS} rounds, {how}: {found}")
        return found

    def _start_daemon(self) -> subprocess.Popen[bytes]:
        log = self._rig.folder / "pi.log"
        process = self._board.start(
            log, *DAEMON, "--state", "/var/lib/fedbed", "--workers", "1"
        )
        self._rig.processes.append(process)
        return process

    def _round(self, run: str) -> int:
        path = self._rig.runs / run / "events.jsonl"
        events = self._rig.events(run) if path.exists() else []
        return max((event.get("round") or 0 for event in events), default=0)


def main() -> None:
    """Every step; the first that fails ends it."""
    parser = argparse.ArgumentParser(prog="python -m tests.arm", description=__doc__)
    parser.parse_args()
    folder = FOLDER / "test"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    ensure_certificate(folder / "guarded", ["localhost", "127.0.0.1"])
    prepare_files(folder / "guarded")
    config = BrokerConfig(port=free_port(), guarded=True)
    with Emulation() as board, Broker(config, folder / "guarded") as broker:
        rig = GuardedRig(broker.port, folder, guarded=Guarded(broker))
        try:
            _test(Test(board, rig), board, rig)
        finally:
            rig.close()


def _test(test: Test, board: Emulation, rig: GuardedRig) -> None:
    rig.write_experiment(EXPERIMENT)
    shards = _prepare(rig)
    version = [row.torch for row in read_deaths(TABLE.read_text()) if row.when == "import"][-1]
    wrong = board.root / "opt" / "wrong"
    with zipfile.ZipFile(_wheel_of(version)) as wheel:
        wheel.extractall(wrong)
    for cpu in PARTS:
        board.become(cpu)
        test.install()
        test.doctor(wrong, version)
        digests = {
            test.train(),
            test.train(kill=True),
            test.train(kill=True, shards=shards),
        }
        assert len(digests) == 1, digests
        test.say(f"{cpu}: the same bits each time")
    code, printed = board.run(
        rig.folder / "away.log", "sh", "/opt/fedbed/install.sh", "--uninstall"
    )
    assert code == 0, printed
    left = [
        path
        for path in ("opt/fedbed", "etc/fedbed", "var/lib/fedbed")
        if (board.root / path).exists()
    ]
    assert left == []
    test.say("uninstall: nothing is left")


def _findings(printed: str) -> dict[str, dict[str, str]]:
    found = json.loads(printed.splitlines()[-1])["findings"]
    return {finding["check"]: finding for finding in found}


def _prepare(rig: GuardedRig) -> Path:
    """Shards for the experiment, made here; the folder of this partition."""
    out = rig.folder / "out"
    file = str(rig.folder / "tiny.toml")
    process = rig.start("prepare", "fl_server", "data", "prepare", file, "-o", str(out))
    assert process.wait() == 0, rig.log("prepare")
    return out / str(json.loads((out / "manifest.json").read_text())["key"])


def _empty(state: Path, shards: Path | None, clients: Sequence[int]) -> None:
    """A board that knows nothing of earlier runs, and has these clients' shards, if any."""
    for part in ("runs", "shards", "downloads"):
        shutil.rmtree(state / part, ignore_errors=True)
    if shards is not None:
        (state / "shards" / shards.name).mkdir(parents=True)
        for client in clients:
            shutil.copy(shards / f"client-{client}.safetensors", state / "shards" / shards.name)


def _right(glibc: str) -> str:
    """The torch that these CPUs are to get with this C library."""
    machine = Machine("aarch64", "armv8.0", glibc, PYTHON)
    return (choose(TABLE.read_text(), machine) or {})["torch"]


def _wheels(glibc: str) -> Path:
    """The wheelhouse of such boards, filled once for these versions."""
    folder = FOLDER / f"wheels-{glibc.replace('.', '-')}"
    wanted = "".join(path.read_text() for path in sorted(TABLE.parent.glob("*.txt")))
    stamp = folder.with_suffix(".stamp")
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        script = PROJECT / "scripts" / "wheelhouse.sh"
        which = ("--for", "aarch64", "--python", PYTHON, "--glibc", glibc)
        subprocess.run([script, folder, *which], check=True)
        stamp.write_text(wanted)
    return folder


def _wheel_of(version: str) -> Path:
    """A torch for arm64, downloaded once."""
    folder = FOLDER / "wrong"
    found = next(folder.glob(f"torch-{version}-*.whl"), None)
    if found is None:
        where = ("--platform", "manylinux_2_28_aarch64", "--platform", "manylinux2014_aarch64")
        which = ("--no-deps", "--only-binary=:all:", "--python-version", PYTHON)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "-d", str(folder)]
        subprocess.run([*pip, *where, *which, f"torch=={version}"], check=True)
    return found or next(folder.glob(f"torch-{version}-*.whl"))


if __name__ == "__main__":
    try:
        main()
    except (AssertionError, RuntimeError, subprocess.SubprocessError) as error:
        sys.exit(f"arm-test: {error}")
