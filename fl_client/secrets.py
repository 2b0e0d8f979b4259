"""What this board's clients send in the steps of a secured round; secrets stay on disk."""

from __future__ import annotations

import secrets
from pathlib import Path

import msgspec

from common.errors import ProtocolError, WithdrawnError
from common.privacy.rules import (
    LEAST_SECURE,
    RevealedShares,
    RoundKeys,
    SealedShares,
    Secret,
    check_request,
    needed,
)
from common.privacy.secure import answer, sealed_shares, unsealed_shares
from common.wire.json_codec import INVALID, decoder
from common.wire.messages import SecureRound, Step
from common.worker.secret_store import SecretRecord, SecretStore

LOST = "its keys of this round are lost"


class Secrets:
    """The clients of this board in one secured run; `share` is the experiment's threshold."""

    def __init__(self, folder: Path, run: str, share: float) -> None:
        self._store = SecretStore(folder, run)
        self._run = run
        self._share = share
        self._asked: dict[int, tuple[int, tuple[int, ...]]] = {}  # client -> round, survivors

    def forget(self) -> None:
        """The run is over: nobody needs the secrets of its last round."""
        for path in self._store.folder.glob("client-*/secret"):
            path.unlink(missing_ok=True)

    def path(self, client_id: int) -> Path:
        """Where a training process finds the secret of a client."""
        return self._store.path(client_id)

    def receive(self, blob: bytes, client_id: int, round_number: int) -> Step:
        """Take what the coordinator sends to one client, and the step that it is for.

        The first members, and the first shares, are final: WithdrawnError for others.
        """
        try:
            message = decoder(SecureRound).decode(blob)
        except INVALID as error:
            raise ProtocolError(f"not a step of a secured round: {error}") from error
        if (message.run, message.round, message.client) != (self._run, round_number, client_id):
            raise ProtocolError("a step of another round or client")
        record = self._store.load(client_id, round_number)
        if record is None or message.members.get(client_id) != record.me.keys():
            raise WithdrawnError(LOST)
        known = record
        record = self._with_members(record, message)
        record = _with_sealed(record, message)
        if record != known:
            self._store.save(record)
        self._asked[client_id] = (round_number, message.survivors)
        return message.step

    def _with_members(self, record: SecretRecord, message: SecureRound) -> SecretRecord:
        if record.members:
            if (record.members, record.threshold) != (message.members, message.threshold):
                raise WithdrawnError("the coordinator has other members than before")
            return record
        if len(message.members) < LEAST_SECURE:
            raise WithdrawnError(
                f"the coordinator wants a sum of {len(message.members)} clients, of which one "
                f"would know the rest; expected at least {LEAST_SECURE}"
            )
        if message.threshold < needed(self._share, len(message.members)):
            raise WithdrawnError(
                f"the coordinator wants {message.threshold} of {len(message.members)} clients "
                "to open the sum, which is less than the experiment says"
            )
        return msgspec.structs.replace(
            record, members=message.members, threshold=message.threshold
        )

    def has_keys(self, client_id: int, round_number: int) -> bool:
        """Whether a client has made its keys of a round."""
        return self._store.load(client_id, round_number) is not None

    def message(self, client_id: int, round_number: int, step: Step) -> Secret:
        """What a client contributes to a step; RevealError if it must not."""
        record = self._store.load(client_id, round_number)
        if step == "keys":
            if record is None:
                record = SecretRecord(
                    run=self._run,
                    round=round_number,
                    client=client_id,
                    secret=secrets.token_bytes(32),
                )
                self._store.save(record)
            return RoundKeys(keys=record.me.keys())
        if record is None:
            raise WithdrawnError(LOST)
        if step == "shares":
            sealed = sealed_shares(record.me, record.members, record.threshold)
            return SealedShares(sealed=sealed)
        asked, survivors = self._asked.get(client_id, (0, ()))
        assert asked == round_number, "asked only if the request is here"
        return RevealedShares(shares=self._reveal(record, survivors))

    def _reveal(self, record: SecretRecord, survivors: tuple[int, ...]) -> dict[int, bytes]:
        """One share for each client, if that opens no single update; noted before."""
        check_request(
            record.client,
            sharers=record.peers,
            threshold=record.threshold,
            survivors=survivors,
            answered=record.answered,
        )
        if record.answered is None:
            record = msgspec.structs.replace(record, answered=survivors)
            self._store.save(record)
        return answer(record.me, record.members, record.threshold, record.sealed, survivors)


def _with_sealed(record: SecretRecord, message: SecureRound) -> SecretRecord:
    """The record with the shares of the others, once and for all; each can be opened."""
    if not message.sealed or record.sealed == message.sealed:
        return record
    if record.sealed:
        raise WithdrawnError("the coordinator has shares of other clients than before")
    others = set(message.members) - {record.client}
    if not set(message.sealed) <= others or len(message.sealed) + 1 < record.threshold:
        raise WithdrawnError("the coordinator sends shares of too few or of other clients")
    try:
        unsealed_shares(record.me, record.members, record.threshold, message.sealed)
    except ProtocolError as error:
        raise WithdrawnError(str(error)) from error
    return msgspec.structs.replace(record, sealed=message.sealed)
