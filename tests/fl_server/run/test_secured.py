"""Secured rounds on the coordinator's disk, and sums whose masks cancel, or do not."""

from __future__ import annotations

import secrets
from pathlib import Path

import numpy as np
import pytest

from common.arrays import Array
from common.errors import FedbedError, ProtocolError
from common.privacy.exact import fixed, make_scale
from common.privacy.rules import Keys, RevealedShares, RoundKeys, SealedShares
from common.privacy.secure import Me, answer, masked, sealed_shares
from common.wire.tensors import MaskedMeta, encode_tensors
from fl_server.rounds.actions import Settle
from fl_server.rounds.steps import Sealing
from fl_server.run.updates.masked import MaskedSum
from fl_server.run.updates.secure_journal import SecureJournal

CLIENTS = (0, 1, 2)
SCALE = make_scale(updates=4, heaviest=100.0, largest=4.0)
LIKE = {"base.w": np.zeros(50, np.float32), "head.w": np.zeros((2, 3), np.float32)}


def journal_in(folder: Path) -> SecureJournal:
    return SecureJournal("r", lambda number: folder / f"round-{number}")


class Played:
    """A round of three clients on one disk, up to the opening."""

    def __init__(self, folder: Path, gone: tuple[int, ...] = ()) -> None:
        self.folder = folder
        self.journal = journal_in(folder)
        self.me = {c: Me("r 1", c, secrets.token_bytes(32)) for c in CLIENTS}
        for client, me in self.me.items():
            assert self.journal.keep(1, client, RoundKeys(keys=me.keys())) == "keys"
        self.journal.settle(Settle(1, "shares", CLIENTS, 2))
        members = self.journal.message(1, 0).members
        for client, me in self.me.items():
            self.journal.keep(1, client, SealedShares(sealed=sealed_shares(me, members, 2)))
        self.journal.settle(Settle(1, "updates", CLIENTS, 2))
        self.survivors = tuple(c for c in CLIENTS if c not in gone)
        self.blobs = {c: self.update(c) for c in self.survivors}
        self.journal.settle(Settle(1, "opening", self.survivors, 2))
        for client in self.survivors:
            given = self.journal.message(1, client)
            told = answer(self.me[client], members, 2, given.sealed, given.survivors)
            self.journal.keep(1, client, RevealedShares(shares=told))

    def update(self, client: int, *, wrong: bool = False) -> bytes:
        peers = self.journal.opening(1).peers
        me = Me("r 1", client, secrets.token_bytes(32)) if wrong else self.me[client]
        weights = {"base": 10.0 + client, "head": 1.0}
        plain = fixed(SCALE, value_of(client), weights, samples=10 + client, loss=0.5)
        hidden = {k: v.view(np.int64) for k, v in masked(me, peers, plain).items()}
        return encode_tensors(hidden, MaskedMeta(run="r", round=1, client=client))

    def sum(self) -> MaskedSum:
        journal = journal_in(self.folder)
        load = self.blobs.__getitem__
        return MaskedSum(load, SCALE, LIKE, lambda: journal.opening(1))


def value_of(client: int) -> dict[str, Array]:
    return {name: array + np.float32(client + 0.25) for name, array in LIKE.items()}


@pytest.mark.parametrize("gone", [(), (0,), (1,), (2,)])
def test_the_mean_is_that_of_the_survivors_also_after_a_restart(
    tmp_path: Path, gone: tuple[int, ...]
) -> None:
    played = Played(tmp_path, gone)
    late, early = played.sum(), played.sum()
    for client in played.survivors:
        assert early.take(client, played.blobs[client]) == "client"
    for total in (early, late):
        updates = total.updates(played.survivors, LIKE)
        mean = updates.mean()
        assert mean is not None
        weights = [10.0 + client for client in played.survivors]
        expected = np.average([c + 0.25 for c in played.survivors], weights=weights)
        assert mean["base.w"] == pytest.approx(expected)
        assert mean["head.w"] == pytest.approx(np.mean([c + 0.25 for c in played.survivors]))
        assert updates.reported.samples == sum(10 + c for c in played.survivors)
        assert updates.reported.loss == pytest.approx(0.5)
        with pytest.raises(FedbedError, match="hides the single update of client"):
            updates[0]


def test_masks_that_do_not_cancel_end_the_run_in_words(tmp_path: Path) -> None:
    played = Played(tmp_path)
    played.blobs[1] = played.update(1, wrong=True)
    with pytest.raises(FedbedError, match="the masks of r 1 do not cancel"):
        played.sum().updates(CLIENTS, LIKE)


def test_a_round_of_nobody_has_no_mean_and_opens_nothing(tmp_path: Path) -> None:
    updates = Played(tmp_path).sum().updates((), LIKE)
    assert (len(updates), updates.reported.samples, updates.reported.loss) == (0, 0, None)


def test_what_has_not_the_form_of_a_masked_update_is_rejected(tmp_path: Path) -> None:
    total, meta = Played(tmp_path).sum(), MaskedMeta(run="r", round=1, client=0)
    for arrays in (
        {"base.w": np.zeros(50, np.int64)},
        {**LIKE, "@sums": np.zeros(5, np.float32)},
        {k: np.asarray(v, np.int64) for k, v in {**LIKE, "@sums": np.zeros(4)}.items()},
    ):
        with pytest.raises(ProtocolError, match="not the masked integers of an update"):
            total.take(0, encode_tensors(arrays, meta))


def test_where_a_round_is_stays_after_a_restart(tmp_path: Path) -> None:
    played = Played(tmp_path, gone=(2,))
    again = journal_in(tmp_path)
    assert again.sealing(1) == Sealing("opening", (0, 1), 2, frozenset({0, 1}))
    assert again.message(1, 0) == played.journal.message(1, 0)
    assert again.opening(1) == played.journal.opening(1)
    assert again.sealing(2) == Sealing()


def test_a_contribution_torn_by_a_power_cut_is_as_if_it_had_not_come(tmp_path: Path) -> None:
    journal = journal_in(tmp_path)
    for client in (0, 1):
        journal.keep(1, client, RoundKeys(keys=Me("r 1", client, bytes(32)).keys()))
    (tmp_path / "round-1" / "keys-1.json").write_bytes(b'{"secret"')
    assert journal_in(tmp_path).sealing(1).answered == {0}


def test_contributions_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    journal = journal_in(tmp_path)
    with pytest.raises(ProtocolError, match="not a usable public key"):
        journal.keep(1, 0, RoundKeys(keys=Keys(bytes(32), bytes(32), bytes(32))))
    played = Played(tmp_path)
    with pytest.raises(ProtocolError, match="shares for other clients than the members"):
        played.journal.keep(1, 0, SealedShares(sealed={1: bytes(82)}))
    with pytest.raises(ProtocolError, match="shares of other clients than those who train"):
        played.journal.keep(1, 0, RevealedShares(shares={7: bytes(33)}))
