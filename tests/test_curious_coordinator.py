"""A coordinator that keeps everything, and asks for more: it learns sums, and no single update.

Real shells on a broker in memory (see `tests/shells/`). Everything that passed the broker is
what the coordinator and the broker's machine can know.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np
import pytest

from common.arrays import Array
from common.experiment.sums import scale_of
from common.privacy import shamir
from common.privacy.ciphers import agree, stream
from common.privacy.exact import fixed
from common.privacy.rules import Keys, RevealedShares, RoundKeys
from common.wire.chunks import cut
from common.wire.json_codec import decoder, encode
from common.wire.messages import Chunk, CurrentRound, Info, SecureRound
from common.wire.tensors import MaskedMeta, UpdateMeta, decode_tensors
from common.wire.topics import packet, unpack
from fl_server.rounds.state import Working
from fl_server.run.journal import read_records
from tests.model.parts import Setup
from tests.shells.parties import FEDERATION
from tests.shells.setup import experiment_of
from tests.shells.world import World

SETUP = Setup(boards=((0, 1), (2, 3), (4, 5)), threshold=0.6, rounds=1, grace=2.0)
THRESHOLD = 4  # of six clients


@dataclass
class Known:
    """What has passed the broker in round 1."""

    run: str = ""
    keys: dict[int, Keys] = field(default_factory=dict)
    shares: dict[int, dict[int, bytes]] = field(default_factory=dict)
    updates: dict[int, Array] = field(default_factory=dict)


def everything(world: World) -> Known:
    known = Known()
    for message in boards_messages(world):
        if isinstance(message, Info) and isinstance(message.secret, RoundKeys):
            known.run, known.keys[message.client] = message.run, message.secret.keys
        elif isinstance(message, Info) and isinstance(message.secret, RevealedShares):
            known.shares[message.client] = message.secret.shares
        elif isinstance(message, Chunk) and message.header.client is not None:
            assert message.header.parts == 1
            arrays, _ = decode_tensors(bytes(message.body), MaskedMeta)
            known.updates[message.header.client] = flat(arrays)
    return known


def boards_messages(world: World, since: int = 0) -> Iterator[object]:
    for item in world.broker.published[since:]:
        if item.payload:
            row, message = unpack(FEDERATION, item.topic, item.payload)
            if row.source == "board":
                yield message


def flat(arrays: dict[str, Array]) -> Array:
    parts = [arrays[name].reshape(-1).view(np.uint64) for name in sorted(arrays)]
    return np.concatenate(parts)


def true_updates() -> dict[int, Array]:
    """The same updates, from a run that is not secured."""
    found: dict[int, Array] = {}
    plain = replace(SETUP, threshold=0.0, exact=True, grace=float("inf"))
    scale = scale_of(experiment_of(plain))
    assert scale is not None
    with World(plain) as world:
        world.settle(100)
        for message in boards_messages(world):
            if isinstance(message, Chunk) and message.header.client is not None:
                arrays, meta = decode_tensors(bytes(message.body), UpdateMeta)
                integers = fixed(
                    scale, arrays, meta.weights, samples=meta.samples, loss=meta.loss
                )
                found[meta.client] = flat(integers)
    return found


def mask(key: bytes, size: int) -> Array:
    return np.concatenate([*stream(key, size)])


def step_of(world: World) -> str:
    phase = world.server.service.conductor.state.phase if world.server.alive else None  # type: ignore[attr-defined]
    sealing = phase.sealing if isinstance(phase, Working) else None
    return sealing.step if sealing is not None else ""


def run_until(world: World, condition: Callable[[], bool]) -> None:
    for _ in range(100):
        world.run_until_quiet(condition)
        if condition():
            return
        world.pass_time(1.0)
    raise AssertionError("it never happens")


def secured_run_with_a_drop_out() -> Known:
    """Clients 4 and 5 drop out after they have shared their secrets."""
    with World(SETUP) as world:
        run_until(world, lambda: step_of(world) == "updates")
        world.boards[2].die_for_good()
        world.settle(200)
        assert world.outcome().finished
        assert world.outcome().lines[1]["clients"] == [0, 1, 2, 3]
        return everything(world)


@pytest.fixture(scope="module")
def known() -> Known:
    return secured_run_with_a_drop_out()


@pytest.fixture(scope="module")
def truth() -> dict[int, Array]:
    return true_updates()


def revealed(known: Known) -> dict[int, bytes]:
    """Seeds of the survivors and mask keys of the others, from the shares that boards sent."""
    helpers = sorted(known.shares)[:THRESHOLD]
    by = shamir.factors([helper + 1 for helper in helpers])
    return {
        client: shamir.join({h + 1: known.shares[h][client] for h in helpers}, by)
        for client in known.keys
    }


def unmasked_as_far_as_possible(known: Known) -> dict[int, Array]:
    """Every update without all masks that the coordinator can compute."""
    secrets, left = revealed(known), {}
    for client in known.shares:
        size = known.updates[client].size
        left[client] = known.updates[client] - mask(secrets[client], size)
        for gone in set(known.keys) - set(known.shares):
            pair = agree(secrets[gone], known.keys[client].mask, f"{known.run} 1 pair")
            one = mask(pair, size)
            left[client] = left[client] - one if client < gone else left[client] + one
    return left


def chi_squared(arrays: Iterable[Array]) -> float:
    """Over the values of bytes, with 255 degrees of freedom: 1 in 10^8 is above 400."""
    data = np.concatenate([array.view(np.uint8) for array in arrays])
    counts = np.bincount(data, minlength=256)
    expected = data.size / 256
    return float(((counts - expected) ** 2 / expected).sum())


def test_everything_that_was_received_opens_the_sum_and_no_smaller_one(
    known: Known, truth: dict[int, Array]
) -> None:
    left = unmasked_as_far_as_possible(known)
    assert sorted(left) == [0, 1, 2, 3]
    assert sorted(known.keys) == [0, 1, 2, 3, 4, 5]
    for count in range(1, 5):
        for some in itertools.combinations(left, count):
            total = sum((left[client] for client in some), np.zeros_like(left[0]))
            plain = sum((truth[client] for client in some), np.zeros_like(left[0]))
            assert np.array_equal(total, plain) == (count == 4), some


def test_masked_updates_are_uniform_also_without_all_masks_that_can_be_known(
    known: Known, truth: dict[int, Array]
) -> None:
    masked = [known.updates[client] for client in known.shares]
    left = unmasked_as_far_as_possible(known)
    assert chi_squared(masked) < 400
    assert chi_squared(left.values()) < 400
    for some in itertools.combinations(left.values(), 3):
        assert chi_squared([some[0] + some[1] + some[2]]) < 400
    assert chi_squared(truth[client] for client in left) > 10_000


def test_no_client_sends_both_shares_of_anybody(known: Known) -> None:
    """Of survivors shares of the seed, of others of the mask key, from everybody the same."""
    answers = known.shares
    assert sorted(answers) == [0, 1, 2, 3]
    secrets = revealed(known)
    for client, keys in known.keys.items():
        is_seed = hashlib.sha256(secrets[client]).digest() == keys.seal
        assert is_seed == (client in answers), client


def forged(world: World, survivors: tuple[int, ...]) -> list[Info]:
    """What boards answer to a coordinator that asks for other survivors."""
    mark = len(world.broker.published)
    for message in retained(world):
        if isinstance(message, CurrentRound):
            later = {"incarnation": message.incarnation + 1, "step": "opening"}
            asked = msgspec.structs.replace(message, answered=(), **later)
            world.broker.publish(packet(FEDERATION, asked))
        if isinstance(message, Chunk) and message.header.client is not None:
            true = decoder(SecureRound).decode(bytes(message.body))
            request = encode(msgspec.structs.replace(true, survivors=survivors))
            for chunk in cut(
                *(request,), run=true.run, round_number=1, client=true.client, down=True
            ):
                world.broker.publish(packet(FEDERATION, chunk))
    for _ in range(8):
        world.broker.pass_time(1.0)
        for board in world.boards:
            board.tick()
            while board.move(0):
                pass
    sent = boards_messages(world, mark)
    return [message for message in sent if isinstance(message, Info) and relevant(message)]


def relevant(info: Info) -> bool:
    return info.secret is not None or info.state in ("refused", "withdrawn")


def all_are_asked(world: World) -> bool:
    asked = [
        decoder(SecureRound).decode(bytes(message.body)).step == "opening"
        for message in retained(world)
        if isinstance(message, Chunk) and message.header.client is not None
    ]
    steps = [m.step for m in retained(world) if isinstance(m, CurrentRound)]
    return len(asked) == 4 and all(asked) and steps == ["opening"]


def retained(world: World) -> list[object]:
    stored = [*world.broker.retained.items()]
    return [unpack(FEDERATION, topic, payload)[1] for topic, payload in stored]


def test_a_request_for_the_other_kind_of_shares_is_refused_also_after_a_restart_and_shown() -> (
    None
):
    setup = Setup(threshold=0.6, rounds=1)
    with World(setup) as world:
        run_until(world, lambda: all_are_asked(world))
        world.server.crash()
        for board in world.boards:
            while board.move(0):
                pass
        answered = everything(world)
        assert sorted(answered.shares) == [0, 1, 2, 3]
        for fewer in ((0, 1, 2), (0, 1, 3), (0, 1)):
            answers = forged(world, fewer)
            assert {(info.client, info.state) for info in answers} == {
                (client, "refused") for client in range(4)
            }
            assert all("single updates" in info.problem for info in answers)
            for board in world.boards:
                board.crash()
        for _ in range(4):  # until it is later than the forged one: boards believe the latest
            world.server.start()
            world.server.crash()
        world.settle(200)
        events = read_records(world.folder / "run" / "events.jsonl")
        shown = [event["text"] for event in events if event["event"] == "reveal_refused"]
        assert shown
        assert all("refuses to open round 1" in text for text in shown)
        assert world.outcome().finished
