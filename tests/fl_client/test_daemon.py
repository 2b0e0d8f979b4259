"""The daemon's shell: joins, trains, and is not confused by whatever else it receives."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from common import VERSION
from common.config import AlgorithmSection, PrivacySection
from common.errors import BrokerError, ClaimError
from common.wire.claims import PATIENCE_SECONDS
from common.wire.messages import Chunk, ClientMetrics, Connected, Info, Message
from common.wire.topics import TOPICS, Packet, packet
from fl_client.agent.machine import RETRY_SECONDS
from tests.fl_client.board_rig import (
    EXPERIMENT,
    RUN,
    Rig,
    content,
    current,
    detail,
    end,
    selected,
    weights,
)
from tests.hashing_pool import DIED, SAMPLES
from tests.memory_broker import TAKEN_OVER


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def test_a_board_joins_and_its_claim_settles(rig: Rig) -> None:
    rig.work()
    presence = rig.presence()
    assert (presence.board, presence.clients) == ("attic", (0, 1))
    assert (presence.connected, presence.settled, presence.version) == (True, True, VERSION)


def test_selected_clients_train_and_testers_test(rig: Rig) -> None:
    rig.open_round(clients=(1,), testers=(0, 1))
    rig.work()
    assert rig.states() == [(1, "training"), (0, "testing"), (1, "trained"), (1, "testing")]
    [update] = rig.published(Chunk)
    meta = content(update)
    assert (meta.run, meta.round, meta.client, meta.samples) == (RUN, 1, 1, SAMPLES)
    assert [m.client for m in rig.published(ClientMetrics)] == [0, 1]


def test_workers_train_side_by_side(tmp_path: Path) -> None:
    rig = Rig(tmp_path, clients=(0, 1, 2), workers=2)
    rig.open_round(clients=(0, 1, 2))
    rig.work(pool=False)
    rig.pool.work()
    rig.work(pool=False)
    assert rig.states() == [(0, "training"), (1, "training")]
    rig.work()
    assert [client for client, _, _ in rig.updates()] == [0, 1, 2]


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)])
def test_messages_may_come_in_any_order(rig: Rig, order: tuple[int, ...]) -> None:
    messages: tuple[Message, ...] = (detail(), current(), selected(clients=(0,)), *weights())
    for index in order:
        rig.work()
        assert rig.updates() == []
        rig.publish(messages[index])
    rig.work()
    assert len(rig.updates()) == 1


def test_a_repeated_a_late_and_a_foreign_message_change_nothing(rig: Rig) -> None:
    rig.open_round(1)
    rig.open_round(2)
    rig.work()
    rig.publish(current(2, safe=(0, 1)))
    rig.work()
    before, mark, trained = rig.daemon.state, rig.mark, list(rig.pool.trained)
    rig.publish(
        current(1),  # late
        selected(1),
        *weights(1),
        detail(),  # repeated
        current(2),
        selected(2),
        *weights(2),
        current(7, "other"),  # foreign
        selected(7, "other"),
        *weights(7, "other"),
        end("other"),
    )
    rig.work()
    assert rig.messages(mark) == []
    assert rig.pool.trained == trained
    work, known = rig.daemon.state.work, before.work
    assert work is not None
    assert known is not None
    assert (work.snapshots, work.jobs, work.results) == (
        known.snapshots,
        known.jobs,
        known.results,
    )


GARBAGE = (b"\x00", b"{", b"[]", b"{}", b"\xff\xfe" * 40, b"9" * 4000, b'{"run": 1}')


@pytest.mark.parametrize("payload", GARBAGE, ids=repr)
def test_a_malformed_payload_on_any_topic_is_dropped(rig: Rig, payload: bytes) -> None:
    rig.work()
    mark = rig.mark
    for row in TOPICS:
        for last in ("0", "attic", "to/0/0"):
            topic = f"fl/{row.pattern.replace('+', last)}"
            rig.broker.publish(Packet(topic, payload, retain=False))
    rig.work()
    assert not rig.link.busy, "all of them are confirmed"
    assert rig.broker.published[mark + 3 * len(TOPICS) :] == []
    rig.open_round(clients=(0,))
    rig.work()
    assert len(rig.updates(mark + 3 * len(TOPICS))) == 1


def test_the_parts_of_two_models_are_never_mixed(rig: Rig) -> None:
    [right], [wrong] = weights(1), weights(2)
    header = msgspec.structs.replace(right.header, digest="0" * 32)
    rig.publish(detail(), current(), selected(clients=(0,)))
    rig.publish(Chunk(header, wrong.body))
    rig.work()
    assert rig.updates() == []
    rig.publish(right)
    rig.work()
    assert len(rig.updates()) == 1


def test_weights_that_never_come_are_asked_for(rig: Rig) -> None:
    rig.publish(detail(), current(), selected(clients=(1,)))
    rig.work()
    rig.wait(3.5)
    assert rig.states() == [(1, "missing")]


def test_what_is_safe_is_not_sent_again_and_what_is_not_is(rig: Rig) -> None:
    rig.open_round(testers=(0, 1))
    rig.work()
    rig.publish(current(safe=(0,), measured=(1,)))
    mark = rig.mark
    rig.wait(4.0)
    assert {client for client, _, _ in rig.updates(mark)} == {1}
    assert {m.client for m in rig.published(ClientMetrics, mark)} == {0}


def test_a_new_round_cancels_the_jobs_of_the_old_one(rig: Rig) -> None:
    rig.open_round(1, clients=(0,))
    rig.work(pool=False)
    rig.pool.work()
    rig.work(pool=False)
    rig.open_round(2, clients=(1,))
    rig.work()
    assert rig.pool.trained == [(1, 2)]
    assert "failed" not in {state for _, state in rig.states()}


def test_the_end_of_a_run_releases_the_processes_and_another_run_follows(rig: Rig) -> None:
    rig.open_round(clients=(0,))
    rig.work()
    rig.publish(end())
    rig.work()
    assert rig.pool.released
    rig.open_round(run="run.2", clients=(1,))
    rig.work()
    assert [(chunk.header.run, chunk.header.client) for chunk in rig.published(Chunk)] == [
        (RUN, 0),
        ("run.2", 1),
    ]


# who may be here


def test_a_second_daemon_with_the_same_name_is_refused_and_the_first_goes_on(
    tmp_path: Path,
) -> None:
    first = Rig(tmp_path / "a")
    first.work()
    second = Rig(tmp_path / "b", first.broker)
    with pytest.raises(ClaimError, match="board name 'attic' is already used"):
        both_work(second, first)
    second.daemon.close()
    first.work()
    first.open_round(clients=(0,))
    first.work()
    assert first.presence().instance == first.identity.instance
    assert len(first.updates()) == 1


def test_a_second_daemon_with_the_same_clients_is_refused(tmp_path: Path) -> None:
    first = Rig(tmp_path)
    first.work()
    second = Rig(tmp_path, first.broker, board="cellar", clients=(1, 2))
    with pytest.raises(ClaimError, match="'cellar' claims clients 1, but board 'attic'"):
        both_work(second, first)
    second.daemon.close()
    assert "fl/client/connected/cellar" not in first.broker.retained


def both_work(second: Rig, first: Rig) -> None:
    for _ in range(100):
        second.work()
        first.work()


def test_a_dead_daemon_of_the_same_name_is_waited_for_and_then_replaced(tmp_path: Path) -> None:
    first = Rig(tmp_path / "a")
    first.work()
    first.link.kill()
    second = Rig(tmp_path / "b", first.broker)
    second.open_round(clients=(0,))
    second.work()
    assert second.updates() == []
    second.wait(PATIENCE_SECONDS + 1)
    assert len(set(second.updates())) == 1


def test_a_copied_state_folder_ends_the_first_of_the_two(tmp_path: Path) -> None:
    first = Rig(tmp_path / "a")
    first.work()
    second = Rig(tmp_path / "b", first.broker)
    second.link.kill()
    second.start(first.identity)
    second.daemon.advance()
    with pytest.raises(BrokerError, match=TAKEN_OVER):
        first.work()


def test_a_broker_that_refuses_this_board_ends_it(rig: Rig) -> None:
    rig.broker.refuses = "not authorized"
    with pytest.raises(BrokerError, match="refuses board 'attic': not authorized"):
        rig.work()


# versions and problems


def test_a_coordinator_with_another_protocol_is_refused_and_the_reason_published(
    rig: Rig,
) -> None:
    rig.publish(msgspec.structs.replace(detail(), protocol=99))
    rig.publish(current(), selected(), *weights())
    rig.work()
    assert "the coordinator" in rig.presence().problem
    rig.publish(detail())
    rig.work()
    assert rig.presence().problem == ""
    assert len(rig.updates()) == 2


def test_an_experiment_that_this_version_does_not_know_is_refused(rig: Rig) -> None:
    unknown = msgspec.structs.replace(EXPERIMENT, algorithm=AlgorithmSection(name="newest"))
    rig.publish(detail(experiment=unknown), current(), selected(), *weights())
    rig.work()
    assert f"cannot take part in {RUN}" in rig.presence().problem
    assert rig.updates() == []


def test_a_board_without_cryptography_takes_no_part_in_secured_runs_and_says_what_to_do(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    secured = msgspec.structs.replace(EXPERIMENT, privacy=PrivacySection(secure=True))
    rig.publish(detail(experiment=secured), current(), selected(), *weights())
    rig.work()
    assert "pip install 'fedbed[privacy]'" in rig.presence().problem
    assert rig.updates() == []


def test_data_that_cannot_be_prepared_is_reported_and_tried_again(rig: Rig) -> None:
    rig.pool.problem = "no shard of client 0"
    rig.open_round(clients=(0,))
    rig.work()
    assert rig.presence().problem == "no shard of client 0"
    rig.pool.problem = ""
    rig.wait(RETRY_SECONDS + 1)
    assert rig.presence().problem == ""
    assert len(rig.updates()) == 1


def test_a_training_process_that_dies_is_reported_and_the_job_tried_again(rig: Rig) -> None:
    rig.open_round(clients=(0,))
    for _ in range(2):
        rig.work_until(rig.pool.die)
        rig.work(pool=False)
        rig.wait(RETRY_SECONDS + 1, pool=False)
    problems = [info.problem for info in rig.published(Info) if info.state == "failed"]
    assert problems == [DIED, DIED]
    assert rig.updates() == []
    rig.wait(2 * RETRY_SECONDS)
    assert {(client, number) for client, number, _ in rig.updates()} == {(0, 1)}


# the end


def test_a_daemon_that_is_stopped_publishes_that_it_leaves_and_sends_no_will(rig: Rig) -> None:
    rig.work()
    rig.daemon.stop()
    assert rig.daemon.advance() is False
    rig.daemon.close()
    assert rig.presence().connected is False
    assert rig.pool.released
    mark = rig.mark
    rig.broker.pass_time(60.0)
    assert rig.mark == mark


def test_run_serves_until_it_is_stopped(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.daemon.stop()
    rig.daemon.run()
    assert rig.pool.released


def test_a_claim_that_was_deleted_is_published_again(rig: Rig) -> None:
    rig.work()
    rig.broker.publish(Packet("fl/client/connected/attic", b"", retain=True))
    rig.work()
    assert rig.presence().settled


def test_presence_of_others_does_not_matter(rig: Rig) -> None:
    rig.work()
    mark = rig.mark
    other = msgspec.structs.replace(
        rig.presence(), board="cellar", instance="c", clients=(5,), connected=False
    )
    rig.broker.publish(packet("fl", other))
    rig.work()
    assert rig.published(Connected, mark) == [other]
