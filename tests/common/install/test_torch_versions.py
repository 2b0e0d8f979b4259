"""One table says which torch runs where: installer, playbooks, doctor and docs agree."""

from __future__ import annotations

import importlib.util
import itertools
import re
import signal
import subprocess
from pathlib import Path

import pytest

from common.install.torch_versions import (
    TABLE,
    Machine,
    choose,
    cpu_kind,
    dies_when,
    read_deaths,
    read_rows,
    this_machine,
)
from fl_client.doctor.examine import examine_machine
from fl_client.doctor.findings import KnownTorch, TorchTrial, judge_torch

ROOT = Path(__file__).resolve().parents[3]
TEXT = TABLE.read_text()
PI_4 = "Features\t: fp asimd evtstrm crc32 cpuid\nCPU part\t: 0xd08\n"
PI_5 = "Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid\n"
MACHINES = [
    Machine(*values)
    for values in itertools.product(
        ("aarch64", "x86_64", "riscv64"),
        ("armv8.0", "armv8.1", "any"),
        ("2.9", "2.17", "2.27", "2.28", "2.36"),
        ("3.10", "3.12", "3.13", "3.14", "3.15"),
    )
]


def by_the_script(machines: list[Machine]) -> list[str]:
    """What the shell scripts choose for each: "torch numpy torchvision", or nothing."""
    calls = (
        f"choose_torch {TABLE} {m.machine} {m.cpu} {m.glibc} {m.python} || :; echo ."
        for m in machines
    )
    script = f". {TABLE.with_name('choose_torch.sh')}\n" + "\n".join(calls)
    done = subprocess.run(
        ["sh", "-eu", "-c", script], capture_output=True, text=True, check=True
    )
    return [part.strip() for part in done.stdout.split(".\n")[:-1]]


def test_scripts_and_python_choose_the_same_for_every_machine() -> None:
    machines = MACHINES[::3]  # the shell takes its time
    for machine, printed in zip(machines, by_the_script(machines), strict=True):
        words = dict(zip(("torch", "numpy", "torchvision"), printed.split(), strict=False))
        expected = {name: version for name, version in words.items() if version != "-"}
        assert choose(TEXT, machine) == (expected if printed else None), machine


def test_the_playbooks_choose_by_the_same_table() -> None:
    path = ROOT / "ansible" / "filter_plugins" / "torch_pins.py"
    spec = importlib.util.spec_from_file_location("torch_pins", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for features, cpu in ((PI_4, "armv8.0"), (PI_5, "armv8.1")):
        for glibc, python in (("2.36", "3.11"), ("2.27", "3.11"), ("2.36", "3.13")):
            wanted = choose(TEXT, Machine("aarch64", cpu, glibc, python))
            assert module.torch_pins("aarch64", features, f"glibc {glibc}", python) == wanted
    assert module.torch_pins("x86_64", "", "glibc 2.36", "3.11") == {}


def test_no_other_file_knows_a_version_of_torch_for_old_cpus() -> None:
    """Only docs, tests and the files with hashes may repeat what the table says."""
    told = re.compile(r"\b2\.(3\.1|9\.1)\b")
    places = ("ansible", "scripts", "broker", "common", "fl_client", "fl_server", "Dockerfile")
    files = [
        path
        for place in places
        for path in ((ROOT / place).rglob("*") if (ROOT / place).is_dir() else [ROOT / place])
        if path.is_file() and path.suffix in {".py", ".sh", ".yml", ".j2", ""}
    ]
    assert files
    found = {
        path.relative_to(ROOT).as_posix()
        for path in files
        if told.search(path.read_text(errors="ignore"))
    }
    assert found <= {"ansible/roles/fedbed/defaults/main.yml"}, "an example of a pin"


def test_the_docs_show_the_table() -> None:
    docs = (ROOT / "docs" / "fleet.md").read_text()
    for row in read_rows(TEXT):
        shown = [row.machine.machine, row.machine.cpu, row.machine.glibc, row.machine.python]
        shown += [version.replace("-", "as pinned") for version in row.pins.values()][:2]
        assert f"| {' | '.join(shown)} |" in docs
    for death in read_deaths(TEXT):
        assert f"| {death.cpu} | {death.torch} | {death.when} |" in docs


def test_what_is_chosen_was_never_seen_to_die() -> None:
    for machine in MACHINES:
        torch = (choose(TEXT, machine) or {}).get("torch")
        assert torch is None or dies_when(TEXT, machine, torch) is None


@pytest.mark.parametrize(
    ("machine", "cpuinfo", "kind"),
    [
        ("aarch64", PI_4, "armv8.0"),
        ("aarch64", PI_5, "armv8.1"),
        ("aarch64", "", "armv8.0"),
        ("x86_64", "flags: sse2", "any"),
    ],
)
def test_an_arm_cpu_is_new_if_it_has_atomics(machine: str, cpuinfo: str, kind: str) -> None:
    assert cpu_kind(machine, cpuinfo) == kind


def test_there_is_a_torch_for_the_machine_we_are_on() -> None:
    assert choose(TEXT, this_machine()) is not None


@pytest.mark.parametrize("glibc", ["2.27", "2.36"])
def test_the_doctor_advises_what_the_installer_would_choose(
    glibc: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A board that is not here: its CPU and a torch that dies on it are told to the doctor."""
    pi = Machine("aarch64", "armv8.0", glibc, "3.11")
    dying = TorchTrial(-signal.SIGILL, "import", "2.10.0")
    monkeypatch.setattr("fl_client.doctor.examine.this_machine", lambda: pi)
    monkeypatch.setattr("fl_client.doctor.examine.try_torch", lambda: dying)
    found = {one.check: one for one in examine_machine(tmp_path, 1, with_torch=True)}
    chosen = by_the_script([pi])[0].split()[0]
    assert found["torch"].level == "failed"
    assert found["torch"].advice.endswith(f"install torch {chosen}")


def test_the_doctor_warns_of_a_torch_that_was_seen_to_die_on_such_cpus() -> None:
    pi = Machine("aarch64", "armv8.0", "2.36", "3.11")
    chosen = (choose(TEXT, pi) or {})["torch"]
    known = KnownTorch(chosen, dies_when(TEXT, pi, "2.13.0+cpu") or "")
    finding = judge_torch(TorchTrial(0, "training step", "2.13.0+cpu", 1.0), known)
    assert finding.level == "warning"
    assert finding.advice == f"run install.sh again, or install torch {chosen}"
