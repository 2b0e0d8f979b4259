"""Machines to provision, without hardware: Debian with systemd as process 1, sshd, own address.

Each machine is an overlay over one base file system, booted by systemd-nspawn in a network
namespace of its own; a bridge joins them with this machine. Needs root and the Debian packages
mmdebstrap, systemd-container, iproute2, openssh-client and dpkg-dev. Nothing of it can be
reached from outside, and the machines reach nothing outside.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.e2e.rig import eventually

FOLDER = Path(os.environ.get("FEDBED_FLEET_DIR", "/var/tmp/fedbed-fleet"))
BRIDGE, NETWORK, USER = "fedbed0", "10.98.76", "pi"
SUITE = "bookworm"
SYSTEM = "systemd,systemd-sysv,dbus,openssh-server,python3,python3-apt,sudo,iproute2"
# What playbooks and tests install: the machines find it in a repository on their own disk.
AVAHI = ("avahi-daemon", "avahi-utils")
OFFERED = ("mosquitto", "python3-venv", "systemd-timesyncd", "wget", *AVAHI)
TOOLS = ("mmdebstrap", "systemd-nspawn", "ip", "ssh", "dpkg-scanpackages", "setpriv")
BOOT_SECONDS = 120.0


def call(*command: object, check: bool = True) -> str:
    """Run a program of the system; what it printed."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if check and done.returncode != 0:
        words = " ".join(map(str, command))
        raise RuntimeError(f"{words}: exit code {done.returncode}: {done.stderr.strip()}")
    return done.stdout


@dataclass
class Machine:
    """One machine of the lab."""

    name: str
    number: int
    folder: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"{NETWORK}.{10 + self.number}"

    @property
    def space(self) -> str:
        return f"{BRIDGE}-{self.name}"

    @property
    def port(self) -> str:
        return f"{BRIDGE}p{self.number}"

    @property
    def root(self) -> Path:
        return self.folder / "root"


@dataclass
class Lab:
    """The bridge and its machines; all of it ends with the context."""

    machines: dict[str, Machine] = field(default_factory=dict)

    @property
    def key(self) -> Path:
        return FOLDER / "key"

    def __enter__(self) -> Lab:
        missing = [tool for tool in TOOLS if shutil.which(tool) is None]
        if os.geteuid() != 0 or missing:
            raise RuntimeError(f"needs root and the programs: {', '.join(missing or TOOLS)}")
        FOLDER.mkdir(parents=True, exist_ok=True)
        _sweep()
        _make_key(self.key)
        _make_base(FOLDER / "base", self.key)
        call("ip", "link", "add", BRIDGE, "type", "bridge", "forward_delay", "0")
        call("ip", "addr", "add", f"{NETWORK}.1/24", "dev", BRIDGE)
        call("ip", "link", "set", BRIDGE, "up")
        _filter("-I", check=True)
        return self

    def __exit__(self, *_: object) -> None:
        for machine in self.machines.values():
            if machine.process is not None:
                machine.process.send_signal(signal.SIGTERM)  # nspawn: an orderly shutdown
        for machine in self.machines.values():
            _end(machine)
        _sweep()

    def boot(self, *names: str) -> None:
        """Start new machines and wait until they take logins."""
        for name in names:
            machine = Machine(name, len(self.machines) + 1, FOLDER / "machines" / name)
            self.machines[name] = machine
            _furnish(machine)
            _connect(machine)
            _start(machine)
        self.wait_for(*names)

    def wait_for(self, *names: str) -> None:
        """Wait until machines are up."""
        for name in names:
            eventually(partial(self._is_up, name), f"{name} boots", BOOT_SECONDS)

    def _is_up(self, name: str) -> bool:
        process = self.machines[name].process
        assert process is not None
        assert process.poll() is None, f"{name} died: see {self.machines[name].folder}"
        state = self.ssh(name, "systemctl", "is-system-running", check=False).strip()
        return state in {"running", "degraded"}

    def reboot(self, name: str) -> None:
        """A reboot as its administrator would do it; returns when it is up again."""
        machine = self.machines[name]
        assert machine.process is not None
        self.ssh(name, "sudo", "systemctl", "reboot", check=False)
        machine.process.wait(60)  # nspawn leaves the second start to whoever keeps it
        _start(machine)
        self.wait_for(name)

    @contextlib.contextmanager
    def cut(self, name: str) -> Iterator[None]:
        """The machine's cable is out."""
        call("ip", "link", "set", self.machines[name].port, "down")
        try:
            yield
        finally:
            call("ip", "link", "set", self.machines[name].port, "up")

    def ssh(self, name: str, *command: str, check: bool = True) -> str:
        """Run a command on a machine."""
        where = f"{USER}@{self.machines[name].address}"
        return call("ssh", "-i", self.key, *self.ssh_options(), where, *command, check=check)

    def ssh_options(self) -> Sequence[str]:
        """How to log in: the machines are made anew each time, so their host keys are."""
        options = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null"]
        options += ["LogLevel=ERROR", "BatchMode=yes", "ConnectTimeout=5"]
        return [word for option in options for word in ("-o", option)]


def _sweep() -> None:
    """Remove what this or an earlier lab left; its processes have ended with it."""
    for space in call("ip", "netns", "list", check=False).split():
        if space.startswith(f"{BRIDGE}-"):
            call("ip", "netns", "del", space)
    for root in sorted((FOLDER / "machines").glob("*/root")):
        if root.is_mount():
            call("umount", root)
    _filter("-D", check=False)
    call("ip", "link", "del", BRIDGE, check=False)
    shutil.rmtree(FOLDER / "machines", ignore_errors=True)
    for group in _cgroups("*"):
        for inner, _, _ in os.walk(group, topdown=False):
            with contextlib.suppress(OSError):  # of a tree that this kernel has not
                Path(inner).rmdir()


def _filter(action: str, *, check: bool) -> None:
    """Let machines talk to each other also where a Docker engine forbids all forwarding."""
    if shutil.which("iptables") is not None:
        rule = ("FORWARD", "-i", BRIDGE, "-o", BRIDGE, "-j", "ACCEPT")
        call("iptables", action, *rule, check=check)


def _cgroups(name: str) -> list[Path]:
    """The control groups of a machine: two systemds must not share one."""
    top = Path("/sys/fs/cgroup")
    whole = (top / "cgroup.controllers").exists()
    trees = [top] if whole else [path for path in top.iterdir() if path.is_dir()]
    if name == "*":
        return [path for tree in trees for path in (tree / BRIDGE).glob("*")]
    return [tree / BRIDGE / name for tree in trees]


def _make_key(key: Path) -> None:
    if not key.exists():
        call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "fedbed", "-f", key)


def mirror() -> str:
    """Where Debian's packages come from: as this machine gets them."""
    sites = call("apt-get", "indextargets", "--format", "$(SITE)").split()
    return os.environ.get("FEDBED_FLEET_MIRROR") or next(
        site.rstrip("/") for site in sites if site.rstrip("/").endswith("/debian")
    )


def _make_base(base: Path, key: Path) -> None:
    """The file system all machines start from; made once (some minutes) and kept."""
    stamp, wanted = base.with_suffix(".stamp"), " ".join((SYSTEM, *OFFERED))
    if base.exists() and stamp.exists() and stamp.read_text() == wanted:
        return
    shutil.rmtree(base, ignore_errors=True)
    new = base.with_suffix(".new")
    shutil.rmtree(new, ignore_errors=True)
    get = "apt-get -qq -y --no-install-recommends --download-only install"
    call(
        *("mmdebstrap", "--quiet", "--variant=minbase", f"--include={SYSTEM}"),
        f'--customize-hook=chroot "$1" {get} {" ".join(OFFERED)}',
        '--customize-hook=cd "$1" && mkdir srv/apt && mv var/cache/apt/archives/*.deb srv/apt',
        *(SUITE, new, f"deb {mirror()} {SUITE} main"),
    )
    packages = subprocess.run(
        ["dpkg-scanpackages", "."], cwd=new / "srv/apt", capture_output=True, check=True
    )
    (new / "srv/apt/Packages").write_bytes(packages.stdout)
    (new / "etc/apt/sources.list").write_text("deb [trusted=yes] file:/srv/apt ./\n")
    call("chroot", new, "useradd", "-m", "-s", "/bin/bash", USER)
    (new / "etc/sudoers.d/fleet").write_text(f"{USER} ALL=(ALL) NOPASSWD: ALL\n")
    ssh = new / "home" / USER / ".ssh"
    ssh.mkdir(mode=0o700)
    shutil.copy(key.with_suffix(".pub"), ssh / "authorized_keys")
    call("chroot", new, "chown", "-R", f"{USER}:{USER}", f"/home/{USER}/.ssh")
    (new / "etc/machine-id").write_text("")
    os.utime(new / "var/lib/apt/lists", (0, 0))  # or the playbook would take them for fresh
    for timer in ("apt-daily", "apt-daily-upgrade", "dpkg-db-backup", "e2scrub_all"):
        (new / f"etc/systemd/system/{timer}.timer").symlink_to("/dev/null")
    new.rename(base)
    stamp.write_text(wanted)


def _furnish(machine: Machine) -> None:
    """A bare file system of its own."""
    layers = [machine.folder / part for part in ("upper", "work")]
    for folder in (*layers, machine.root):
        folder.mkdir(parents=True)
    where = f"lowerdir={FOLDER / 'base'},upperdir={layers[0]},workdir={layers[1]}"
    call("mount", "-t", "overlay", "overlay", "-o", where, machine.root)
    (machine.root / "etc/hostname").write_text(f"{machine.name}\n")
    (machine.root / "etc/hosts").write_text(f"127.0.0.1 localhost {machine.name}\n")


def _connect(machine: Machine) -> None:
    space, port = machine.space, machine.port
    call("ip", "netns", "add", space)
    call("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", space)
    call("ip", "link", "set", port, "master", BRIDGE, "up")
    call("ip", "-n", space, "link", "set", "lo", "up")
    call("ip", "-n", space, "addr", "add", f"{machine.address}/24", "dev", "eth0")
    call("ip", "-n", space, "link", "set", "eth0", "up")


def _start(machine: Machine) -> None:
    groups = _cgroups(machine.name)
    for group in groups:
        group.mkdir(parents=True, exist_ok=True)
        for name in ("cpuset.cpus", "cpuset.mems") if "cpuset" in group.parts else ():
            for level in (group.parent, group):
                (level / name).write_text((level.parent / name).read_text())
    enter = 'for group in "$@"; do echo $$ > "$group/cgroup.procs"; done; '
    nspawn = (
        "setpriv --pdeathsig KILL systemd-nspawn --quiet --register=no --keep-unit --boot "
        f"--machine={machine.space} --hostname={machine.name} --directory={machine.root} "
        f"--network-namespace-path=/run/netns/{machine.space} --console=passive "
        "--resolv-conf=off --timezone=off --link-journal=no"
    )
    with (machine.folder / "console.log").open("ab") as log:
        machine.process = subprocess.Popen(
            ["sh", "-c", f"{enter}exec {nspawn}", "sh", *map(str, groups)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _end(machine: Machine) -> None:
    if machine.process is None:
        return
    try:
        machine.process.wait(20)
    except subprocess.TimeoutExpired:
        machine.process.kill()
        machine.process.wait()
