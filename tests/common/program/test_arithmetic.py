"""What decides how a machine rounds, in one line."""

from __future__ import annotations

import importlib.metadata

import pytest

from common.program.arithmetic import arithmetic, cpu_name

PI_4 = "processor\t: 0\nFeatures\t: fp asimd crc32\nCPU part\t: 0xd08\n"
PC = "model name\t: Some  CPU @ 2.20GHz\nflags\t\t: sse4_2 avx avx2 fma\n"


@pytest.mark.parametrize(
    ("cpuinfo", "name"),
    [
        (PI_4, "Cortex-A72"),
        (PI_4.replace("0xd08", "0xfff"), "ARM part 0xfff"),
        (PC, "Some CPU @ 2.20GHz (avx2)"),
        ("", "riscv64"),
    ],
)
def test_a_cpu_has_a_name(cpuinfo: str, name: str) -> None:
    assert cpu_name(cpuinfo, "riscv64") == name


def test_this_machine_says_its_torch_without_importing_it() -> None:
    assert f", torch {importlib.metadata.version('torch')}, fedbed " in arithmetic()
