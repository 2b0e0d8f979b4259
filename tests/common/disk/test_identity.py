"""Who a daemon is, across restarts."""

from __future__ import annotations

from pathlib import Path

from common.disk.identity import next_identity


def test_a_daemon_stays_itself_and_counts_its_starts(tmp_path: Path) -> None:
    first, second = next_identity(tmp_path), next_identity(tmp_path)
    assert first.instance == second.instance
    assert (first.starts, second.starts) == (1, 2)


def test_two_state_folders_are_two_daemons(tmp_path: Path) -> None:
    assert next_identity(tmp_path / "a").instance != next_identity(tmp_path / "b").instance


def test_a_torn_identity_is_replaced_not_fatal(tmp_path: Path) -> None:
    first = next_identity(tmp_path)
    (tmp_path / "daemon.json").write_bytes(b'{"inst')
    assert next_identity(tmp_path).instance != first.instance
