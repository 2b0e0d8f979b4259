"""A board of another CPU on this machine: a Debian of arm64 whose programs qemu runs.

The kernel starts qemu for them (binfmt_misc); QEMU_CPU says which CPU it is, and instructions
that this CPU lacks kill the program, as on the board. Needs root, and qemu-user-static and
mmdebstrap of Debian.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.fleet.lab import call, mirror

FOLDER = Path(os.environ.get("FEDBED_ARM_DIR", "/var/tmp/fedbed-arm"))
ROOT = FOLDER / "root"
SUITE, SYSTEM = "bookworm", "python3,ca-certificates"
QEMU = Path("/usr/bin/qemu-aarch64-static")
BINFMT = Path("/proc/sys/fs/binfmt_misc")
MAGIC = (
    r":fedbed-aarch64:M::\x7f\x45\x4c\x46\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
    r":\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff"
    f":{QEMU}:F"
)
# What the kernel of such a board shows; qemu would show this machine's. No `atomics`: ARMv8.0.
CPUINFO = """\
processor\t: 0
BogoMIPS\t: 108.00
Features\t: fp asimd evtstrm crc32 cpuid
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x0
CPU part\t: {part}
CPU revision\t: 3
"""
PARTS = {"cortex-a72": "0xd08", "cortex-a57": "0xd07"}


@dataclass
class Emulation:
    """The board's file system, mounted over the kept root; all of it ends with the context."""

    cpu: str = "cortex-a72"
    registered: bool = False

    @property
    def root(self) -> Path:
        return FOLDER / "board" / "root"

    def __enter__(self) -> Emulation:
        if os.geteuid() != 0 or shutil.which("mmdebstrap") is None or not QEMU.exists():
            raise RuntimeError("needs root, and: apt-get install qemu-user-static mmdebstrap")
        FOLDER.mkdir(parents=True, exist_ok=True)
        self._sweep()
        self._register()
        _make_root()
        board = FOLDER / "board"
        for part in ("upper", "work", "root"):
            (board / part).mkdir(parents=True)
        layers = f"lowerdir={ROOT},upperdir={board / 'upper'},workdir={board / 'work'}"
        call("mount", "-t", "overlay", "overlay", "-o", layers, self.root)
        call("mount", "-t", "proc", "proc", self.root / "proc")
        call("mount", "--bind", "/dev", self.root / "dev")
        call("mount", "-t", "sysfs", "-o", "ro", "sysfs", self.root / "sys")
        call("mount", "-t", "tmpfs", "tmpfs", self.root / "tmp")
        self.become(self.cpu)
        return self

    def __exit__(self, *_: object) -> None:
        self._sweep()
        if self.registered:
            (BINFMT / "fedbed-aarch64").write_text("-1")

    def become(self, cpu: str) -> None:
        """From now on it is a board with this CPU."""
        self.cpu = cpu
        file = FOLDER / "board" / f"cpuinfo.{cpu}"
        file.write_text(CPUINFO.format(part=PARTS[cpu]))
        call("mount", "--bind", file, self.root / "proc" / "cpuinfo")

    def put_program(self, name: str, script: str) -> None:
        """A program that is found before the system's of this name."""
        path = self.root / "usr" / "local" / "bin" / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def start(self, log: Path, *command: str, **settings: str) -> subprocess.Popen[bytes]:
        """Start a program of the board; its process is the one that is killed."""
        with log.open("ab") as output:
            return subprocess.Popen(
                ["chroot", str(self.root), *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={
                    "QEMU_CPU": self.cpu,
                    "PATH": "/opt/fedbed/venv/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                    "HOME": "/root",
                    "LC_ALL": "C.UTF-8",
                    **settings,
                },
            )

    def run(self, log: Path, *command: str, **settings: str) -> tuple[int, str]:
        """Run a program of the board to its end: exit code, and what it printed."""
        log.unlink(missing_ok=True)
        code = self.start(log, *command, **settings).wait()
        return code, log.read_text(errors="replace")

    def _register(self) -> None:
        if not (BINFMT / "register").exists():
            call("mount", "-t", "binfmt_misc", "binfmt_misc", BINFMT)
        known = [path for path in BINFMT.glob("*aarch64*") if "enabled" in path.read_text()]
        if not known:
            (BINFMT / "register").write_text(MAGIC)
            self.registered = True

    def _sweep(self) -> None:
        """Unmount what this or an earlier test left, and end its programs."""
        root = str(self.root)
        for process in Path("/proc").glob("[0-9]*"):
            try:
                inside = str((process / "root").readlink()) == root
            except OSError:  # it has ended meanwhile
                continue
            if inside:
                os.kill(int(process.name), signal.SIGKILL)
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for where in reversed([path for path in mounts if path.startswith(root)]):
            call("umount", "--lazy", where)
        shutil.rmtree(FOLDER / "board", ignore_errors=True)


def _make_root() -> None:
    """The Debian all boards start from; made once (about ten minutes) and kept."""
    if ROOT.exists():
        return
    new = ROOT.with_suffix(".new")
    shutil.rmtree(new, ignore_errors=True)
    sys.stdout.write("         making the arm64 root, once: about ten minutes\n")
    call(
        *("mmdebstrap", "--quiet", "--variant=minbase", "--architectures=arm64"),
        *("--skip=check/qemu", f"--include={SYSTEM}", SUITE, new),
        f"deb {mirror()} {SUITE} main",
    )
    new.rename(ROOT)
