"""The coordinator and the sums of several clients that a site sends as one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from common.arrays import Arrays
from common.config import AggregationSection, Experiment
from common.experiment.sums import scale_of
from common.privacy.exact import ExactSum, fixed
from common.privacy.site_sums import as_sent
from common.wire.chunks import cut
from common.wire.tensors import (
    Member,
    SumMeta,
    UpdateMeta,
    decode_tensors,
    encode_tensors,
)
from fl_server.watch import facts
from tests.fl_server.coordinator.scripted import EXPERIMENT, ScriptedBoard, Stage, update_of

EXACT = msgspec.structs.replace(EXPERIMENT, aggregation=AggregationSection(arithmetic="exact"))


def sum_of(run: str, round_number: int, clients: tuple[int, ...], model: Arrays) -> bytes:
    scale = scale_of(EXACT)
    assert scale is not None
    total, members = ExactSum(scale), []
    for client in clients:
        blob = update_of(run, round_number, client, model)
        arrays, meta = decode_tensors(blob, UpdateMeta)
        total.add([client], fixed(scale, arrays, meta.weights))
        said = msgspec.structs.asdict(meta)
        members.append(Member(**{name: said[name] for name in Member.__struct_fields__}))
    meta_of_all = SumMeta(
        run=run, round=round_number, client=clients[0], members=tuple(members)
    )
    return encode_tensors(as_sent(total), meta_of_all)


class Site(ScriptedBoard):
    """Sends what `blobs` has for its lowest client, and nothing for the others."""

    groups: tuple[tuple[int, ...], ...] = ()
    twice = False

    def _send_update(self, run: str, round_number: int, client: int, model: Arrays) -> None:
        for clients in self.groups:
            if clients[0] != client:
                continue
            blob = self.make(run, round_number, clients, model)
            for chunk in cut(blob, run=run, round_number=round_number, client=client):
                self.send(chunk)

    def make(
        self, run: str, round_number: int, clients: tuple[int, ...], model: Arrays
    ) -> bytes:
        return sum_of(run, round_number, clients, model)


def staged(folder: Path, groups: tuple[tuple[int, ...], ...], experiment: Experiment) -> Stage:
    stage = Stage(folder, experiment=experiment)
    first = stage.boards[0]
    site = Site(first.link, "a", (0, 1))
    site.groups = groups
    stage.boards[0] = site
    return stage


@pytest.fixture
def stages() -> Iterator[list[Stage]]:
    made: list[Stage] = []
    yield made
    for stage in made:
        stage.close_files()


@pytest.fixture(scope="module")
def flat(tmp_path_factory: pytest.TempPathFactory) -> str:
    stage = Stage(tmp_path_factory.mktemp("flat"), experiment=EXACT)
    return stage.play(stage.coordinator()[0])


def test_a_sum_counts_as_the_updates_in_it(tmp_path: Path, flat: str) -> None:
    stage = staged(tmp_path, ((0, 1),), EXACT)
    assert stage.play(stage.coordinator()[0]) == flat
    told = [fact for fact in stage.reported if isinstance(fact, facts.Update)]
    assert {(fact.client, fact.round) for fact in told} == {
        (c, r) for c in range(4) for r in (1, 2)
    }
    assert {fact.client for fact in told if not fact.bytes} == {1}, "a sum travels once"


def test_a_sum_survives_a_restart_of_the_coordinator(
    tmp_path: Path, flat: str, stages: list[Stage]
) -> None:
    stage = staged(tmp_path, ((0, 1),), EXACT)
    stages.append(stage)
    coordinator, link = stage.coordinator()
    for _ in range(100):
        coordinator.advance()
        stage.boards[0].step()
        if not stage.of(facts.RoundOpened):  # then board b answers no more
            stage.boards[1].step()
        stage.broker.pass_time(0.05)
    link.kill()
    again, _ = stage.coordinator()
    started = [fact for fact in stage.reported if isinstance(fact, facts.Started)]
    assert started[-1].safe == (0, 1)
    assert stage.play(again) == flat


def test_a_sum_with_another_boards_client_or_with_one_that_counts_is_not_taken(
    tmp_path: Path, flat: str
) -> None:
    stage = staged(tmp_path, ((0, 2), (0, 1), (0, 1, 3)), EXACT)
    assert stage.play(stage.coordinator()[0]) == flat
    texts = [fact.text for fact in stage.reported if isinstance(fact, facts.MessageDropped)]
    assert "a sum with clients of other boards" in texts


def test_sums_that_overlap_count_once(tmp_path: Path, flat: str) -> None:
    stage = staged(tmp_path, ((1,), (0, 1), (0,)), EXACT)
    stage.boards[0].make = lambda run, number, clients, model: (  # type: ignore[attr-defined]
        sum_of(run, number, clients, model)
        if len(clients) > 1
        else update_of(run, number, clients[0], model)
    )
    assert stage.play(stage.coordinator()[0]) == flat


def test_a_sum_is_rejected_in_words_where_sums_are_not_exact(tmp_path: Path) -> None:
    stage = staged(tmp_path, ((0, 1), (1,)), EXPERIMENT)
    stage.boards[0].make = lambda run, number, clients, model: (  # type: ignore[attr-defined]
        sum_of(run, number, clients, model)
        if len(clients) > 1
        else update_of(run, number, clients[0], model)
    )
    assert stage.play(stage.coordinator()[0])
    [first, *_] = [fact.text for fact in stage.reported if isinstance(fact, facts.Rejected)]
    assert "sites need aggregation.arithmetic = 'exact'" in first


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"base.0.weight": 2**62}, "no sum of these clients can have"),
        ({"base.0.weight": None}, "missing or unknown"),
    ],
)
def test_a_sum_that_no_updates_can_have_is_rejected(
    tmp_path: Path, change: dict[str, int | None], reason: str
) -> None:
    def forged(run: str, number: int, clients: tuple[int, ...], model: Arrays) -> bytes:
        arrays, meta = decode_tensors(sum_of(run, number, clients, model), SumMeta)
        name, value = next(iter(change.items()))
        name = next(iter(arrays))
        if value is None:
            del arrays[name]
        else:
            arrays[name] = np.full_like(arrays[name], value)
        return encode_tensors(arrays, meta)

    stage = staged(tmp_path, ((0, 1), (1,)), EXACT)
    stage.boards[0].make = lambda run, number, clients, model: (  # type: ignore[attr-defined]
        forged(run, number, clients, model)
        if len(clients) > 1
        else update_of(run, number, clients[0], model)
    )
    assert stage.play(stage.coordinator()[0])
    [first, *_] = [fact.text for fact in stage.reported if isinstance(fact, facts.Rejected)]
    assert reason in first
