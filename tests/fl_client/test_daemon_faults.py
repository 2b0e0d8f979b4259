"""The daemon's shell under faults: whatever is killed, cut or damaged, each client is trained
once per round where that is possible, and always with the same bits."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from common.disk.recording import replay
from common.experiment.resolve import first_model
from common.wire.messages import Chunk, ClientMetrics
from common.wire.tensors import UpdateMeta, check_arrays, decode_tensors
from common.worker.executor import Executor
from common.worker.orders import JobDone, JobOrder, Prepare
from fl_client.cli import main
from fl_client.cli.replay import AGENT
from tests.fl_client.board_rig import EXPERIMENT, RUN, Rig, current, detail, selected, weights
from tests.memory_broker import Killed, Lost
from tests.shells.setup import memory_root


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def undisturbed(folder: Path, *, rounds: int = 1) -> set[tuple[int, int, str]]:
    """The updates of a board to which nothing happens."""
    rig = Rig(folder / "undisturbed")
    for round_number in range(1, rounds + 1):
        rig.open_round(round_number, testers=(0, 1))
        rig.work()
    return set(rig.updates())


# the connection


@pytest.mark.parametrize("lost", ["nothing", "queues", "everything"])
def test_after_a_restart_of_the_broker_all_that_is_unconfirmed_is_sent_again(
    rig: Rig, lost: Lost
) -> None:
    rig.open_round(testers=(0,))
    rig.work()
    sent = set(rig.updates())
    rig.publish(current(safe=(0,)))
    rig.work()
    rig.broker.stop()
    rig.wait(3.0)
    mark = rig.mark
    rig.broker.start(lost)
    rig.wait(1.0)
    assert rig.presence().session == (1, 2)
    assert set(rig.updates(mark)) == {update for update in sent if update[0] == 1}
    assert [m.client for m in rig.published(ClientMetrics, mark)] == [0]


def test_a_board_reads_its_topics_again_from_a_broker_that_forgot_its_session(
    rig: Rig,
) -> None:
    rig.work()
    rig.broker.restart("everything")
    rig.wait(1.0)
    rig.open_round(clients=(0,))
    rig.work()
    assert len(rig.updates()) == 1


def test_what_was_trained_while_the_broker_was_away_is_sent_when_it_is_back(rig: Rig) -> None:
    rig.open_round()
    rig.work(pool=False)
    rig.pool.work()
    rig.work(pool=False)
    rig.broker.stop()
    rig.work()
    assert rig.updates() == []
    assert rig.pool.trained == [(0, 1), (1, 1)]
    rig.broker.start()
    rig.wait(1.0)
    assert {client for client, _, _ in rig.updates()} == {0, 1}
    assert len(rig.pool.trained) == 2


def test_an_update_that_was_lost_on_its_way_is_sent_again(rig: Rig, tmp_path: Path) -> None:
    rig.open_round()
    rig.work(pool=False)
    while rig.pool.pieces:
        rig.pool.work()
        rig.daemon.advance()
        rig.link.cut()
        rig.wait(1.0, pool=False)
    rig.wait(4.0)
    assert set(rig.updates()) == undisturbed(tmp_path)
    assert len(rig.pool.trained) == 2


def test_a_message_lost_inside_the_broker_is_made_up_for_by_its_repetition(rig: Rig) -> None:
    rig.work()
    rig.open_round(clients=(0,))
    rig.broker.queue(rig.link.session.client_id).clear()
    rig.work()
    assert rig.updates() == []
    rig.open_round(clients=(0,))
    rig.work()
    assert len(rig.updates()) == 1


# kill -9


def test_a_daemon_killed_after_the_snapshot_sends_it_without_training_again(
    rig: Rig, tmp_path: Path
) -> None:
    rig.open_round()
    rig.work(pool=False)
    rig.work_until(rig.snapshot(0, 1).exists)
    assert rig.updates() == []
    rig.restart()
    rig.work()
    assert set(rig.updates()) == undisturbed(tmp_path)
    assert rig.pool.trained == [(1, 1)]


def test_a_daemon_killed_before_the_snapshot_trains_again_with_the_same_bits(
    rig: Rig, tmp_path: Path
) -> None:
    rig.open_round()
    rig.work(pool=False)
    rig.pool.work()
    rig.work(pool=False)
    assert rig.states() == [(0, "training")]
    rig.restart()
    rig.work()
    assert set(rig.updates()) == undisturbed(tmp_path)


def test_a_daemon_killed_at_any_call_of_its_link_changes_nothing() -> None:
    """Among them: between publish and confirm, and in the middle of several actions."""
    folder = Path(tempfile.mkdtemp(dir=memory_root().name))
    expected = undisturbed(folder, rounds=2)
    calls, died = 0, True
    while died:
        calls += 1
        rig = Rig(folder / str(calls))
        rig.link.kill_after(calls)
        died = False
        for round_number in (1, 2):
            rig.open_round(round_number, testers=(0, 1))
            try:
                rig.wait(0.5)
            except Killed:
                died = True
                rig.start()
                rig.wait(1.0)
        assert set(rig.updates()) == expected, f"killed at call {calls}"
        assert {m.client for m in rig.published(ClientMetrics) if m.round == 2} == {0, 1}
    assert calls > 30


def test_a_message_that_was_not_confirmed_comes_again_to_the_next_daemon(rig: Rig) -> None:
    rig.work()
    rig.publish(detail())
    rig.broker.retained.clear()
    rig.link.kill_after(1)  # it may still receive
    with pytest.raises(Killed):
        rig.daemon.advance()
    rig.start()
    rig.publish(current(), selected(clients=(0,)), *weights())
    rig.work()
    assert len(rig.updates()) == 1


def test_a_killed_daemon_leaves_a_will_and_its_successor_overrules_it(rig: Rig) -> None:
    rig.work()
    rig.link.kill()
    rig.broker.pass_time(3.0)
    assert rig.presence().connected is False
    rig.start()
    rig.work()
    presence = rig.presence()
    assert (presence.connected, presence.session) == (True, (2, 1))


# the disk


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-200] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("cut", [False, True])
def test_a_snapshot_damaged_while_the_daemon_was_away_is_made_again(
    rig: Rig, tmp_path: Path, cut: bool
) -> None:
    rig.open_round()
    rig.work()
    path = rig.snapshot(1, 1)
    if cut:
        path.write_bytes(path.read_bytes()[:100])
    else:
        damage(path)
    mark = rig.mark
    rig.restart()
    rig.work()
    assert set(rig.updates(mark)) == undisturbed(tmp_path)
    assert rig.pool.trained == [(1, 1)]


def test_a_snapshot_damaged_under_a_running_daemon_is_found_when_it_is_sent_again(
    rig: Rig, tmp_path: Path
) -> None:
    rig.open_round()
    rig.work()
    path = rig.snapshot(1, 1)
    data = path.read_bytes()
    at = data.index(b"\n") + 3000  # inside the update
    path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    rig.pool.trained.clear()
    mark = rig.mark
    rig.wait(8.0)
    assert set(rig.updates(mark)) == undisturbed(tmp_path)
    assert rig.pool.trained == [(1, 1)]


def test_a_snapshot_that_vanished_is_made_again(rig: Rig, tmp_path: Path) -> None:
    rig.open_round()
    rig.work()
    rig.snapshot(0, 1).unlink()
    rig.pool.trained.clear()
    rig.wait(8.0)
    assert set(rig.updates()) == undisturbed(tmp_path)
    assert rig.pool.trained == [(0, 1)]


def test_only_the_snapshots_that_are_needed_stay_on_disk(rig: Rig) -> None:
    for round_number in (1, 2, 3):
        rig.open_round(round_number, clients=(0,))
        rig.work()
    folder = rig.snapshot(0, 1).parent
    assert sorted(folder.iterdir()) == [rig.snapshot(0, 2), rig.snapshot(0, 3)]


# recording


def test_a_recording_replays_to_the_same_decisions(tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    rig = Rig(tmp_path, record=record)
    rig.open_round(testers=(0,))
    rig.work()
    rig.daemon.close()
    rig.start()
    rig.work()
    rig.daemon.close()
    lines = list(replay(record, AGENT))
    assert CliRunner().invoke(main, ["replay", str(record)]).output.splitlines() == lines
    assert sum(line.strip().startswith("StartJob") for line in lines) == 4
    assert sum("SendUpdate" in line for line in lines) == 4
    assert sum(": started" in line for line in lines) == 2
    assert lines[-2:] == [
        f"run {RUN}, round 1; running: nothing",
        "snapshots of rounds: client 0 has 1; client 1 has 1",
    ]


def test_a_replay_names_the_event_at_which_the_machine_fails(tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    rig = Rig(tmp_path, record=record)
    rig.open_round()
    rig.work()
    rig.daemon.close()
    lines = record.read_bytes().splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if line.startswith(b'{"Trained"'))
    broken = lines[at].replace(b'"client":0', b'"client":[0]', 1)
    record.write_bytes(b"".join([*lines[:at], broken, *lines[at + 1 :]]))
    result = CliRunner().invoke(main, ["replay", str(record)])
    assert result.exit_code == 1
    assert f"{record}, line {at + 1}: " in result.output


# the real training, in this process


class ExecutorPool:
    """Does what it is told at once, with the real executor."""

    def __init__(self, rig: Rig) -> None:
        self._executor = Executor()
        self._rig = rig

    def prepare(self, order: Prepare) -> None:
        self._rig.link.post(self._executor.prepare(order))

    def start(self, order: JobOrder) -> None:
        done = self._executor.run(order, self._rig.link.post)
        assert isinstance(done, JobDone), done
        self._rig.link.post(done)

    def abandon(self, job: int) -> None: ...

    def release(self) -> None: ...


def test_the_real_training_runs_in_the_same_shell(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.use(ExecutorPool(rig))
    rig.open_round(clients=(0,), testers=(1,))
    rig.work()
    [update] = rig.published(Chunk)
    arrays, meta = decode_tensors(bytes(update.body), UpdateMeta)
    check_arrays(arrays, first_model(EXPERIMENT))
    assert (meta.client, meta.round) == (0, 1)
    [metrics] = rig.published(ClientMetrics)
    assert metrics.own["G"].samples > 0
