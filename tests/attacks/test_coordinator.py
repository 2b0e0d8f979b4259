"""One stolen board account against the coordinator; kill and resume follow every attack.

Each attack ended a run, or falsified it, before there were bounds in the types of the messages,
checks of weights and counts, and a guard around every message.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path

import pytest

from common.wire.json_codec import MAX_JSON
from common.wire.messages import Chunk, ClientMetrics, Connected, Info, Message
from common.wire.topics import Packet, packet
from fl_server.rounds.boards import most_boards
from fl_server.run.journal import read_records
from fl_server.run.store import RunStore
from fl_server.watch import facts
from tests.attacks.forges import (
    counting,
    digits_of_counts,
    enormous_shape,
    honestly,
    info_with,
    many_values,
    not_finite,
    stolen_model,
    summing,
    weighing,
)
from tests.attacks.forging import Forge, with_meta
from tests.attacks.stage import STOLEN, StolenStage, tables_in
from tests.fl_server.coordinator.scripted import Stage

# steps between the first forged message and the kill
AFTER = [2, 20, *(pytest.param(after, marks=pytest.mark.slow) for after in (0, 5))]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> str:
    stage = Stage(tmp_path_factory.mktemp("undisturbed"))
    return stage.play(stage.coordinator()[0])


def play(folder: Path, forge: Forge) -> tuple[StolenStage, str]:
    stage = StolenStage(folder, forge)
    digest = stage.play(stage.coordinator()[0])
    return stage, digest


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The digest of a run without the updates of the stolen client."""
    return play(tmp_path_factory.mktemp("without"), not_finite)[1]


# updates


UPDATES = {
    "3: a shape of 4300 digits": enormous_shape,
    "5: a weight of 1.7e308": weighing(1.7e308),
    "6: a weight of 1e30": weighing(1e30),
    "6: a weight of twice its samples": weighing(2 * 10.0 * (STOLEN + 1)),
    "7: 300 KB of values": many_values,
    "values of 3e38": stolen_model,
}


@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("attack", UPDATES)
def test_a_hostile_update_is_rejected_and_the_run_goes_on_without_it(
    tmp_path: Path, without: str, attack: str, after: int
) -> None:
    stage = StolenStage(tmp_path, UPDATES[attack])
    assert stage.play_killed(after=after) == without
    texts = stage.rejections()
    assert {f"update of client {STOLEN} in round {n} rejected" for n in (1, 2)} == {
        text.partition(":")[0] for text in texts
    }
    assert all(len(text) < 1000 for text in texts)
    lines = read_records(stage.store.folder / "metrics.jsonl")
    assert [line["clients"] for line in lines[1:]] == [[0, 1, 2], [0, 1, 2]]


def test_checkpoints_stay_readable_whatever_boards_report(tmp_path: Path) -> None:
    """Row 7: the header of a checkpoint grew beyond its limit, and resume began at round 0."""

    def forge(message: Message) -> Iterable[Packet]:
        if not isinstance(message, Chunk):
            return honestly(message)
        names = (f"{message.header.round}-{at:060d}" for at in range(32))
        return with_meta(message, values=dict.fromkeys(names, 1e30), loss=1e30)

    stage = StolenStage(tmp_path, forge)
    assert stage.play_killed(after=60)
    found = RunStore(stage.store.folder).load_checkpoint()
    assert found is not None
    assert found[1].round == 2
    [_, resumed] = [fact for fact in stage.reported if isinstance(fact, facts.Started)]
    assert resumed.done > 0


# counts


COUNTS = {
    "4: totals of 4300 digits": digits_of_counts,
    "14: totals of 2^60": counting(2**60),
    "14: totals of a billion": counting(10**9),
}


@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("attack", COUNTS)
def test_hostile_counts_are_rejected_and_change_no_accuracy(
    tmp_path: Path, undisturbed: str, attack: str, after: int
) -> None:
    stage = StolenStage(tmp_path, COUNTS[attack])
    assert stage.play_killed(after=after) == undisturbed
    assert {text.partition(":")[0] for text in stage.rejections()} == {
        f"counts of client {STOLEN} in round {n} rejected" for n in (1, 2, 3)
    }
    lines = read_records(stage.store.folder / "metrics.jsonl")
    honest = [sum(client + at for client in range(3)) / 30 for at in (1, 2, 3)]
    assert [line["accuracy_global"] for line in lines] == honest
    assert [line["tested_clients"] for line in lines] == [3, 3, 3]


SUMS = {
    "more correct answers than samples": summing(correct="[1e6]"),
    "half a correct answer": summing(correct="[0.5]"),
    "two numbers where one is expected": summing(correct="[1,1]"),
    "a loss below zero": summing(loss="[-1e30]"),
    "a loss that is no number": summing(loss="[null]"),
    "a loss beyond the bound": summing(loss="[1e31]"),
    "a matrix that nobody asked for": summing(confusion="[1]"),
}


@pytest.mark.parametrize("attack", SUMS)
def test_sums_that_no_test_can_have_are_rejected_and_change_nothing(
    tmp_path: Path, undisturbed: str, attack: str
) -> None:
    stage = StolenStage(tmp_path, SUMS[attack])
    assert stage.play_killed(after=5) == undisturbed
    assert len(stage.rejections()) == 3
    lines = read_records(stage.store.folder / "metrics.jsonl")
    assert [line["tested_clients"] for line in lines] == [3, 3, 3]
    assert [line["loss_global"] for line in lines] == [1.0, 1.0, 1.0]


# numbers in reports of progress


INFOS = {
    "8: seconds of 1.7e308": info_with("seconds", "1.7e308"),
    "8: the longest seconds": info_with("seconds", "1e9"),
    "11: joules of 1e12": info_with("joules", "1e12"),
    "11: the most joules": info_with("joules", "1e9"),
}


@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("attack", INFOS)
def test_no_number_of_a_board_keeps_a_run_from_ending_or_being_watched(
    tmp_path: Path, undisturbed: str, attack: str, after: int
) -> None:
    stage = StolenStage(tmp_path, INFOS[attack], everybody=True)
    assert stage.play_killed(after=after) == undisturbed
    assert [line.round for line in stage.history()] == [0, 1, 2], "its presence is valid"
    summary = json.loads((stage.store.folder / "summary.json").read_text())
    assert math.isfinite(summary["cost"]["train_seconds"])
    assert len(packet("fl", stage.presence()).payload) < MAX_JSON
    assert tables_in(stage.store.folder)


# names


def test_invented_board_names_cost_nothing(tmp_path: Path, undisturbed: str) -> None:
    """Row 13: thousands of names, in infos (which a broker's rules allow) and as presence."""
    names = iter(range(4_000))

    def forge(message: Message) -> Iterable[Packet]:
        for at, _ in zip(names, range(1_000), strict=False):
            invented = Info(
                run=stage.store.run, round=1, client=STOLEN, board=f"x{at}", state="failed",
                problem="p" * 2000,
            )  # fmt: skip
            yield packet("fl", invented)
            if at % 40 == 0:
                fields = {**stage.thief.presence(), "board": f"x{at}", "instance": f"x{at}"}
                yield packet("fl", Connected(**fields))
        yield from honestly(message)

    stage = StolenStage(tmp_path, forge)
    assert stage.play_killed(after=20) == undisturbed
    assert next(names, None) is None
    limit = most_boards(stage.policy())
    assert len(stage.known_boards()) <= limit < 100
    written = (stage.store.folder / "events.jsonl").stat().st_size
    assert written < 1_000_000, "what is sent to us decides what we write"


@pytest.mark.parametrize("after", AFTER)
def test_a_present_board_keeps_its_clients(
    tmp_path: Path, undisturbed: str, after: int
) -> None:
    """Row 17: the thief claims the clients of boards that are there."""

    def forge(message: Message) -> Iterable[Packet]:
        if isinstance(message, ClientMetrics) and stage.thief.fired < 10:
            fields = {**stage.thief.presence(), "clients": (0, 1, 2, STOLEN)}
            yield packet("fl", Connected(**fields))
        yield from honestly(message)

    stage = StolenStage(tmp_path, forge)
    assert stage.play_killed(after=after) == undisturbed
    assert stage.owners_before == {0: "a", 1: "a", 2: "b", 3: "t"}
