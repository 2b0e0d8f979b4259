"""How many training processes a board starts when nobody says."""

from __future__ import annotations

from pathlib import Path

import pytest

from fl_client.hardware import capacity
from fl_client.hardware.capacity import (
    DAEMON_BYTES,
    PROCESS_BYTES,
    memory_for_each,
    usual_workers,
    workers_for,
)

GIB = 1024**3


@pytest.mark.parametrize(
    ("cores", "memory", "clients", "expected"),
    [
        (4, 8 * GIB, 10, 4),
        (4, 8 * GIB, 3, 3),
        (4, GIB, 10, 1),
        (4, 2 * GIB, 10, 4),
        (8, 2 * GIB, 10, 4),
        (4, 100, 10, 1),
        (4, None, 10, 4),
        (1, 64 * GIB, 10, 1),
    ],
)
def test_a_board_has_a_process_per_core_that_it_can_feed(
    cores: int, memory: int | None, clients: int, expected: int
) -> None:
    assert workers_for(cores=cores, memory=memory, clients=clients) == expected


def test_a_containers_limits_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {"cpu": "100000 100000\n", "memory": "max\n"}.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(capacity, "CONTAINER_CPU", tmp_path / "cpu")
    monkeypatch.setattr(capacity, "CONTAINER_MEMORY", tmp_path / "memory")
    assert usual_workers(10) == 1


def test_a_process_may_use_its_share_of_what_its_service_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = tmp_path / "system.slice" / "fl-client.service"
    group.mkdir(parents=True)
    (group / "memory.max").write_text(f"{GIB}\n")
    (tmp_path / "own").write_text("0::/system.slice/fl-client.service\n")
    monkeypatch.setattr(capacity, "GROUPS", tmp_path)
    monkeypatch.setattr(capacity, "OWN_GROUP", tmp_path / "own")
    assert memory_for_each(2) == (GIB - DAEMON_BYTES) // 2
    assert memory_for_each(8) == PROCESS_BYTES


def test_a_system_that_says_nothing_about_memory_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MEMORY", "CONTAINER_MEMORY", "CONTAINER_CPU"):
        monkeypatch.setattr(capacity, name, tmp_path / "none")
    assert usual_workers(1) == 1
    monkeypatch.setattr(capacity, "GROUPS", tmp_path / "none")
    assert memory_for_each(1) is None
