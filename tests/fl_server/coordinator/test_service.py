"""The coordinator's shell with a broker in memory: no process, no socket, no waiting."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from common.arrays import Arrays
from common.errors import BrokerError, ClaimError, FedbedError, StoreError
from common.wire.chunks import cut, encode_chunk
from common.wire.messages import Info, TrainEnd
from common.wire.tensors import ModelMeta, decode_tensors
from common.wire.topics import TOPICS, Packet, packet
from fl_server.coordinator.background import in_thread
from fl_server.coordinator.service import Coordinator
from fl_server.run.journal import read_records
from fl_server.run.store import RunStore
from fl_server.run.updates.files import Kind, UpdateFiles
from fl_server.watch import facts
from tests.fl_server.coordinator.scripted import Stage, update_of
from tests.memory_broker import Killed, MemoryLink


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path / "disturbed")
    yield made
    made.close_files()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The digest of a run in which nothing goes wrong."""
    stage = Stage(tmp_path_factory.mktemp("undisturbed"))
    return stage.play(stage.coordinator()[0])


def test_a_run_over_the_link_ends_and_the_boards_know_it(stage: Stage) -> None:
    coordinator, _ = stage.coordinator()
    assert stage.play(coordinator)
    assert coordinator.finished
    for _ in range(50):
        for board in stage.boards:
            board.step()
    assert all(board.ended for board in stage.boards)
    lines = read_records(stage.store.folder / "metrics.jsonl")
    assert [line["round"] for line in lines] == [0, 1, 2]
    assert lines[1]["clients"] == [0, 1, 2, 3]
    retained = set(stage.broker.retained)
    assert not [topic for topic in retained if "send_weights" in topic], "nobody needs them"


@pytest.mark.parametrize("operations", range(3, 90, 14))
def test_a_coordinator_killed_at_any_call_of_its_link_goes_on_to_the_same_bits(
    stage: Stage, undisturbed: str, operations: int
) -> None:
    coordinator, link = stage.coordinator()
    link.kill_after(operations)
    with pytest.raises(Killed):
        stage.play(coordinator)
    again, _ = stage.coordinator()
    assert stage.play(again) == undisturbed


@pytest.mark.parametrize("lost", ["nothing", "queues", "everything"])
@pytest.mark.parametrize("at", [4, 14])
def test_a_broker_that_dies_and_forgets_changes_no_bit(
    stage: Stage, undisturbed: str, at: int, lost: str
) -> None:
    def restart(step: int) -> None:
        if step == at:
            stage.broker.restart(lost)  # type: ignore[arg-type]

    coordinator, _ = stage.coordinator()
    assert stage.play(coordinator, restart) == undisturbed
    assert len(stage.of(facts.BrokerDown)) >= 1


def test_a_connection_that_is_cut_again_and_again_changes_no_bit(
    stage: Stage, undisturbed: str
) -> None:
    coordinator, link = stage.coordinator()

    def cut_off(step: int) -> None:
        if step % 40 == 7 and step < 400:
            link.cut()

    assert stage.play(coordinator, cut_off) == undisturbed


def test_everything_delivered_twice_is_counted_once(stage: Stage, undisturbed: str) -> None:
    coordinator, link = stage.coordinator()

    def repeat(_step: int) -> None:
        queue = stage.broker.queue(link.session.client_id)
        if queue:
            queue.append(queue[0])

    for _ in range(3):
        coordinator.advance()
    assert stage.play(coordinator, repeat) == undisturbed
    lines = read_records(stage.store.folder / "metrics.jsonl")
    assert [line["tested_samples"] for line in lines] == [40, 40, 40]


def test_nonsense_on_every_topic_is_dropped_counted_and_changes_no_bit(
    stage: Stage, undisturbed: str
) -> None:
    names = {"send_weights": "0", "connected": "evil", "receive_info": "0"}
    bodies = (b"\xff", b"{}", b'{"run":"x"}', b"[" * 2000, b"FBC1\xff\xff\xff\xff", b"0" * 9000)

    def disturb(step: int) -> None:
        if step % 5:
            return
        for row in TOPICS:
            last = names.get(row.name, "1")
            topic = f"fl/{row.pattern}".replace("+", last).replace("#", last)
            stage.broker.publish(Packet(topic, bodies[step // 5 % len(bodies)], retain=False))

    coordinator, _ = stage.coordinator()
    assert stage.play(coordinator, disturb) == undisturbed
    assert stage.of(facts.MessageDropped)
    assert stage.of(facts.Refused)


def test_what_belongs_to_others_is_never_applied(stage: Stage, undisturbed: str) -> None:
    coordinator, _ = stage.coordinator()
    run = stage.store.run
    model = coordinator_model(coordinator)
    foreign = [
        *cut(update_of("other", 1, 0, model), run="other", round_number=1, client=0),
        *cut(update_of(run, 9, 0, model), run=run, round_number=9, client=0),
        *cut(update_of(run, 1, 1, model), run=run, round_number=1, client=0),
        *cut(update_of(run, 1, 77, model), run=run, round_number=1, client=77),
    ]

    def disturb(step: int) -> None:
        if step in (5, 12, 20):
            for chunk in foreign:
                topic = f"fl/server/receive_weights/{chunk.header.client}"
                stage.broker.publish(Packet(topic, encode_chunk(chunk), retain=False))

    assert stage.play(coordinator, disturb) == undisturbed


def test_an_update_that_came_twice_while_nobody_coordinated_is_stored_once(
    stage: Stage, undisturbed: str
) -> None:
    """Both are in the queue of the new coordinator, before it may decide anything."""
    first, link = stage.coordinator()
    while not stage.of(facts.RoundOpened):
        for board in stage.boards:
            board.step()
        stage.broker.pass_time(0.05)
        first.advance()
    update = update_of(stage.store.run, 1, 2, coordinator_model(first))
    link.kill()
    for _ in range(2):
        for chunk in cut(update, run=stage.store.run, round_number=1, client=2):
            topic = f"fl/server/receive_weights/{chunk.header.client}"
            stage.broker.publish(Packet(topic, encode_chunk(chunk), retain=False))
    assert stage.play(stage.coordinator()[0]) == undisturbed
    stored = [fact for fact in stage.of(facts.Update) if isinstance(fact, facts.Update)]
    assert sorted((fact.round, fact.client) for fact in stored) == [
        (at, client) for at in (1, 2) for client in range(4)
    ]


def coordinator_model(coordinator: Coordinator) -> Arrays:
    blob = coordinator.conductor.aggregator.downloads.blob(1)
    return decode_tensors(blob, ModelMeta)[0]


def test_only_the_coordinator_may_publish_what_it_publishes(
    stage: Stage, undisturbed: str
) -> None:
    def disturb(step: int) -> None:
        if step == 10:
            end = packet("fl", TrainEnd(run=stage.store.run, reason="because"))
            stage.broker.publish(Packet("fl/server/receive_info/0", end.payload, retain=False))

    assert stage.play(stage.coordinator()[0], disturb) == undisturbed


def test_an_interrupted_run_says_so_and_goes_on(stage: Stage, undisturbed: str) -> None:
    coordinator, _ = stage.coordinator()

    def stop(step: int) -> None:
        if step == 12:
            coordinator.stop()

    assert stage.play(coordinator, stop) == ""
    assert stage.of(facts.Interrupted)
    assert not coordinator.finished
    again, _ = stage.coordinator()
    assert stage.play(again) == undisturbed


def test_a_refused_login_ends_the_coordinator_with_the_reason(stage: Stage) -> None:
    stage.broker.refuses = "wrong user name or password"
    coordinator, _ = stage.coordinator()
    with pytest.raises(BrokerError, match="refuses us: wrong user name"):
        stage.play(coordinator)


def test_a_second_coordinator_of_another_run_is_turned_away(
    stage: Stage, tmp_path: Path, undisturbed: str
) -> None:
    first, _ = stage.coordinator()
    other = Stage(tmp_path / "other", stage.broker, [])
    for _ in range(10):
        first.advance()
    second, _ = other.coordinator()

    def both(_step: int) -> None:
        first.advance()

    with pytest.raises(ClaimError):
        other.play(second, both)
    other.close_files()
    assert stage.play(first) == undisturbed


def test_every_fact_comes_from_the_deciding_thread(tmp_path: Path, undisturbed: str) -> None:
    """Also those about a round that was aggregated in another thread."""
    stage, threads = Stage(tmp_path), set()

    def observe(fact: facts.Fact) -> None:
        threads.add(threading.get_ident())
        stage.reported.append(fact)

    coordinator = Coordinator(
        RunStore(stage.store.folder),
        MemoryLink(stage.broker),
        federation="fl",
        observe=observe,
        background=in_thread,
        clock=stage.broker.clock,
    )
    coordinator.open()
    while coordinator.advance():
        for board in stage.boards:
            board.step()
        stage.broker.pass_time(0.05)
    coordinator.close()
    assert stage.digest() == undisturbed
    assert threads == {threading.get_ident()}


def test_an_error_while_a_round_is_closed_ends_the_run_which_can_be_resumed(
    stage: Stage, undisturbed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise StoreError("the disk is full; free some space, then start again")

    coordinator, _ = stage.coordinator()
    with monkeypatch.context() as patched:
        patched.setattr(RunStore, "save_checkpoint", full)
        with pytest.raises(StoreError, match="the disk is full"):
            stage.play(coordinator)
    coordinator.close()
    again, _ = stage.coordinator()
    assert stage.play(again) == undisturbed


def test_an_error_nobody_expected_is_reported_as_one_of_aggregation(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("oops")

    coordinator, _ = stage.coordinator()
    monkeypatch.setattr(RunStore, "save_checkpoint", broken)
    with pytest.raises(FedbedError, match="aggregation failed: ZeroDivisionError: oops"):
        stage.play(coordinator)


def test_a_resume_reads_every_update_of_the_open_round_once(
    stage: Stage, undisturbed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator, link = stage.coordinator()
    for _ in range(100):
        coordinator.advance()
        stage.boards[0].step()
        if not stage.of(facts.RoundOpened):  # then board b answers no more
            stage.boards[1].step()
        stage.broker.pass_time(0.05)
    link.kill()
    read: list[int] = []
    load = UpdateFiles.load

    def counted(files: UpdateFiles, round_number: int, client: int, kind: Kind) -> bytes:
        read.append(client)
        return load(files, round_number, client, kind)

    with monkeypatch.context() as patched:
        patched.setattr(UpdateFiles, "load", counted)
        again, _ = stage.coordinator()
    assert sorted(read) == [0, 1]
    [_, started] = [fact for fact in stage.reported if isinstance(fact, facts.Started)]
    assert started.safe == (0, 1)
    assert stage.play(again) == undisturbed


def test_energy_and_times_of_another_round_are_not_added(stage: Stage) -> None:
    def disturb(step: int) -> None:
        if step == 8:
            wrong = Info(
                run=stage.store.run, round=7, client=0, board="a", state="trained", joules=5.0
            )
            stage.broker.publish(packet("fl", wrong))

    stage.play(stage.coordinator()[0], disturb)
    lines = read_records(stage.store.folder / "metrics.jsonl")
    assert [line.get("energy_joules") for line in lines[1:]] == [None, None]
    events = read_records(stage.store.folder / "events.jsonl")
    assert [e["event"] for e in events].count("trained") == 8
    assert msgspec.convert(events[0]["safe"], tuple[int, ...]) == ()


def test_what_computed_each_client_is_written_down_and_a_change_is_told_once(
    stage: Stage, undisturbed: str
) -> None:
    coordinator, _ = stage.coordinator()

    def stop(step: int) -> None:
        if not coordinator.conductor.state.done:
            return
        coordinator.stop()

    assert stage.play(coordinator, stop) == ""
    before = {"CPU of a, torch 2": (0, 1), "CPU of b, torch 2": (2, 3)}
    assert RunStore(stage.store.folder).computed == before
    assert not stage.of(facts.Arithmetic)
    stage.boards[0].arithmetic = "CPU of a, torch 3"  # its torch was changed meanwhile
    again, _ = stage.coordinator()
    assert stage.play(again) == undisturbed, "the script computes the same all the same"
    assert RunStore(stage.store.folder).computed == {**before, "CPU of a, torch 3": (0, 1)}
    (told,) = [fact for fact in stage.reported if isinstance(fact, facts.Arithmetic)]
    assert told.board == "a"
    assert "no longer promised" in told.text
