"""Checks a board for all that an experiment will need of it.

Every check ends in a `Finding`; what is good and what to do is decided in `findings.py`.
"""

from __future__ import annotations

import os
import platform
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from common.access.address import Address
from common.access.tls import ca_expiry, days_left, shake_hands, why
from common.data.shard_file import read_shard, shard_path
from common.data.shards import ShardSet
from common.errors import DataError
from common.experiment.file import load_experiment
from common.install.torch_versions import TABLE, choose, dies_when, this_machine
from common.program.child import python_module
from common.wire.link import Link, Refused, Session, Up
from common.wire.topics import TRAIN_END, Packet, board_subscriptions
from fl_client.doctor.findings import (
    Finding,
    KnownTorch,
    TorchTrial,
    judge_certificate,
    judge_clock,
    judge_disk,
    judge_memory,
    judge_python,
    judge_shards,
    judge_starting,
    judge_threads,
    judge_torch,
)
from fl_client.hardware.threads import threads_problem
from fl_client.settings import Settings

TORCH_SECONDS = 300.0  # an import of torch takes a minute on a slow board with a slow card
ANSWER_SECONDS = 10.0
MEGABYTE = 1 << 20


def examine(
    settings: Settings, experiment: Path | None, link: Link, *, with_torch: bool = True
) -> Iterator[Finding]:
    """Every check, one after another, as the answers come; `link` is not open yet."""
    yield from examine_machine(settings.state, settings.workers, with_torch=with_torch)
    yield from _broker(settings, link)
    yield from _data(settings, experiment)


def examine_machine(state: Path, workers: int, *, with_torch: bool) -> Iterator[Finding]:
    """What can be checked before the board is enrolled."""
    yield judge_python(sys.version_info[:2], platform.python_implementation())
    yield judge_starting(threads_problem())
    if with_torch:
        trial = try_torch()
        yield judge_torch(trial, _known_torch(trial.version))
    yield judge_threads(len(os.sched_getaffinity(0)), workers)
    yield _memory(workers)
    yield _disk(state)
    yield _clock()


def _known_torch(version: str) -> KnownTorch:
    table, machine = TABLE.read_text(encoding="utf-8"), this_machine()
    chosen = (choose(table, machine) or {}).get("torch", KnownTorch().chosen)
    return KnownTorch(chosen, dies_when(table, machine, version) or "")


def try_torch(command: Sequence[str] = ()) -> TorchTrial:
    """Let a child process train one step; a crash of torch does not end us."""
    started = time.monotonic()
    try:
        done = subprocess.run(
            command or python_module("fl_client.doctor.torch_trial"),
            capture_output=True,
            text=True,
            timeout=TORCH_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        late = f"no answer within {TORCH_SECONDS:.0f} s"
        return TorchTrial(-signal.SIGALRM, last_words=late)
    printed = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    errors = done.stderr.strip().splitlines()
    return TorchTrial(
        done.returncode,
        printed.get("step", "import"),
        printed.get("version", ""),
        time.monotonic() - started,
        errors[-1] if errors else "",
    )


def _memory(workers: int) -> Finding:
    page = os.sysconf("SC_PAGE_SIZE")
    total = os.sysconf("SC_PHYS_PAGES") * page // MEGABYTE
    lines = Path("/proc/meminfo").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    available = int(fields["MemAvailable"].split()[0]) // 1024
    return judge_memory(total, available, workers)


def _disk(folder: Path) -> Finding:
    there = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(there).free // MEGABYTE
    return judge_disk(free, str(folder), writable=os.access(there, os.W_OK))


def _clock() -> Finding:
    if _output_of("systemd-detect-virt", "--container") not in {None, "none"}:
        return judge_clock(synchronized=None, container=True)
    answer = _output_of("timedatectl", "show", "--property=NTPSynchronized", "--value")
    known = {"yes": True, "no": False}.get(answer or "")
    return judge_clock(synchronized=known, container=False)


def _output_of(*command: str) -> str | None:
    """What a program of the system prints; None if it is absent or does not answer."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def _broker(settings: Settings, link: Link) -> Iterator[Finding]:
    address = settings.address
    try:
        socket.create_connection((address.host, address.port), ANSWER_SECONDS).close()
    except OSError as error:
        advice = "start the broker, or correct its address; see also this board's network"
        reason = f"cannot reach the broker at {address}: {why(error, address.host)}"
        yield Finding("broker", "failed", reason, advice)
        return
    yield Finding("broker", "ok", f"{address} answers")
    if address.ca is not None:
        certificate = _certificate(address, address.ca)
        yield certificate
        if certificate.level == "failed":
            return
    if threads_problem() is None:  # the connection needs one
        yield from _account(settings, link)


def _certificate(address: Address, ca: str) -> Finding:
    try:
        end = shake_hands(address.host, address.port, ca, ANSWER_SECONDS)
    except OSError as error:
        found, _, advice = why(error, address.host).partition("; ")
        again = "copy this board's credentials here again (fl-broker enroll)"
        return Finding("certificate", "failed", found, advice or again)
    return judge_certificate(min(days_left(end), days_left(ca_expiry(ca))))


def _account(settings: Settings, link: Link) -> Iterator[Finding]:
    """Log in, read what boards read, and try what no board may do.

    The forbidden thing is an empty message as the coordinator, which means nothing to those
    who would receive it. The broker answers in order: a refused subscription comes first.
    """
    forbidden = Packet(f"{settings.federation}/{TRAIN_END.pattern}", b"", retain=False)
    name = f"{settings.federation}-{settings.board}-doctor-{secrets.token_hex(4)}"
    topics = board_subscriptions(settings.federation, settings.clients)
    link.open(Session(name, topics))
    try:
        up = _first(link, Up, Refused)
        if not isinstance(up, Up):
            reason = up.reason if isinstance(up, Refused) else "no answer to the login"
            advice = "copy this board's credentials here again (fl-broker enroll on the broker)"
            yield Finding("login", "failed", reason, advice)
            return
        yield Finding("login", "ok", f"as {settings.address.username or 'nobody'}")
        link.publish(forbidden)
        yield _topics(settings.address, _first(link, Refused))
    finally:
        link.close(forget_session=True)


def _topics(address: Address, answer: object) -> Finding:
    if isinstance(answer, Refused) and "read" in answer.reason:
        advice = "enroll this board again on the broker's machine (fl-broker enroll)"
        return Finding("topics", "failed", answer.reason, advice)
    if isinstance(answer, Refused):
        found = "reads what boards read; may not publish as the coordinator"
        return Finding("topics", "ok", found)
    if address.username is None:
        return Finding("topics", "ok", "a broker without accounts: everything is allowed")
    advice = "this account is not limited to a board; enroll the board (fl-broker enroll)"
    return Finding("topics", "warning", "this board may publish as the coordinator", advice)


def _first(link: Link, *kinds: type[object]) -> object:
    """The first happening of these kinds, or None if there is none in time."""
    end = time.monotonic() + (ANSWER_SECONDS if Up in kinds else ANSWER_SECONDS / 2)
    while (left := end - time.monotonic()) > 0:
        happening = link.receive(left)
        if isinstance(happening, kinds):
            return happening
    return None


def _data(settings: Settings, experiment: Path | None) -> Iterator[Finding]:
    root = settings.state / "shards"
    if experiment is not None:
        wanted = load_experiment(experiment)
        clients = tuple(c for c in settings.clients if c < wanted.data.clients)
        yield _shards(ShardSet(root, wanted).folder, clients)
        return
    folders = sorted(path for path in root.glob("*") if path.is_dir())
    for folder in folders:
        yield _shards(folder, settings.clients)
    if not folders:
        yield Finding("data", "ok", f"no shards in {root} yet; an experiment makes them")


def _shards(folder: Path, clients: tuple[int, ...]) -> Finding:
    whole, damaged, missing = [], [], []
    for client in clients:
        path = shard_path(folder, client)
        if not path.exists():
            missing.append(client)
            continue
        try:
            read_shard(path)
        except DataError:
            damaged.append(client)
        else:
            whole.append(client)
    return judge_shards(whole, damaged, missing)
