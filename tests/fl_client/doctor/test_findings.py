"""What the doctor makes of what it saw."""

from __future__ import annotations

import signal

import pytest

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
    judge_threads,
    judge_torch,
    worst,
)


def test_an_illegal_instruction_is_told_in_plain_words() -> None:
    trial = TorchTrial(-signal.SIGILL, "matmul with 2 threads", "2.13.0")
    finding = judge_torch(trial, KnownTorch("2.9.1"))
    assert finding.level == "failed"
    assert finding.found == (
        "torch 2.13.0 dies with an illegal instruction at the first matmul with 2 threads"
    )
    assert finding.advice == (
        "this torch build needs a newer CPU than this board has; "
        "run install.sh again, or install torch 2.9.1"
    )


def test_a_torch_that_cannot_be_imported_is_told_with_its_last_words() -> None:
    finding = judge_torch(
        TorchTrial(1, last_words="ModuleNotFoundError: No module"), KnownTorch()
    )
    assert finding.level == "failed"
    assert "fails at its import: ModuleNotFoundError" in finding.found


@pytest.mark.parametrize(
    ("version", "level"),
    [("2.13.0+cpu", "ok"), ("2.1.2", "ok"), ("2.0.1", "failed"), ("1.13.1", "failed")],
)
def test_torch_from_2_1_on_is_taken(version: str, level: str) -> None:
    assert (
        judge_torch(TorchTrial(0, "training step", version, 1.0), KnownTorch()).level == level
    )


@pytest.mark.parametrize(
    ("finding", "level"),
    [
        (judge_python((3, 10), "CPython"), "ok"),
        (judge_python((3, 6), "CPython"), "failed"),
        (judge_torch(TorchTrial(-signal.SIGKILL, "import"), KnownTorch()), "failed"),
        (judge_threads(4, 4), "ok"),
        (judge_threads(2, 4), "warning"),
        (judge_memory(4000, 3000, 2), "ok"),
        (judge_memory(4000, 700, 2), "warning"),
        (judge_memory(430, 400, 2), "failed"),
        (judge_disk(5000, "/x", writable=True), "ok"),
        (judge_disk(500, "/x", writable=True), "warning"),
        (judge_disk(50, "/x", writable=True), "failed"),
        (judge_disk(5000, "/x", writable=False), "failed"),
        (judge_clock(synchronized=True, container=False), "ok"),
        (judge_clock(synchronized=False, container=False), "warning"),
        (judge_clock(synchronized=None, container=False), "warning"),
        (judge_clock(synchronized=False, container=True), "ok"),
        (judge_certificate(300), "ok"),
        (judge_certificate(3), "warning"),
        (judge_certificate(-1), "failed"),
        (judge_shards([0, 1], [], []), "ok"),
        (judge_shards([0], [], [1]), "warning"),
        (judge_shards([0], [2], [1]), "failed"),
    ],
)
def test_every_judgement_that_is_not_well_says_what_to_do(finding: Finding, level: str) -> None:
    assert finding.level == level
    assert bool(finding.advice) == (level != "ok")


def test_the_report_comes_to_its_worst_finding() -> None:
    well, unwell = Finding("a", "ok", ""), Finding("b", "warning", "", "do")
    assert worst([well]) == "ok"
    assert worst([well, unwell]) == "warning"
    assert worst([unwell, Finding("c", "failed", "", "do"), well]) == "failed"
