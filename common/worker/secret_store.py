"""Secrets of clients in the open round of a secured run, and updates under their masks.

<folder>/client-<id>/secret   one file, of the newest round only: whole or absent, its owner's

It is written before anything that depends on it is sent, so a board that was killed says the
same again: the same keys, the same masks, and one answer to one request.
"""

from __future__ import annotations

import logging
import secrets
from pathlib import Path

import msgspec
import numpy as np

from common.config import Experiment
from common.disk.atomic import disk_errors, write_atomic
from common.errors import ProtocolError, UnfitUpdateError
from common.experiment.sums import scale_of
from common.privacy.exact import fixed
from common.privacy.noise import KEY_BYTES, with_share
from common.privacy.rules import Key, Keys, Sealed
from common.privacy.secure import Me, masked
from common.wire.json_codec import INVALID, decodable, decoder
from common.wire.messages import Ids, Name, Natural, Wire
from common.wire.tensors import MaskedMeta, UpdateMeta, decode_tensors, encode_tensors

log = logging.getLogger(__name__)


@decodable
class SecretRecord(Wire, frozen=True, kw_only=True):
    """A client in a secured round: its secret, and all that was fixed since.

    `sealed` came from all clients that train with it; `answered` is the set of survivors whose
    sum it has helped to open.
    """

    run: Name
    round: Natural
    client: Natural
    secret: Key
    threshold: Natural = 0
    members: dict[Natural, Keys] = msgspec.field(default_factory=dict)
    sealed: dict[Natural, Sealed] = msgspec.field(default_factory=dict)
    answered: Ids | None = None

    @property
    def me(self) -> Me:
        """The client with its secret."""
        return Me(f"{self.run} {self.round}", self.client, self.secret)

    @property
    def peers(self) -> dict[int, Keys]:
        """All clients that train, this one among them."""
        return {c: keys for c, keys in self.members.items() if c in self.sealed} | {
            self.client: self.members[self.client]
        }


class SecretStore:
    """The secrets of one run's clients on one board."""

    def __init__(self, folder: Path, run: str) -> None:
        self.folder = folder
        self.run = run

    def path(self, client_id: int) -> Path:
        """The file of a client."""
        return self.folder / f"client-{client_id:06d}" / "secret"

    def load(self, client_id: int, round_number: int) -> SecretRecord | None:
        """What a client has of a round; None if it has nothing of it."""
        path = self.path(client_id)
        if not path.exists():
            return None
        try:
            record = read_secret(path)
        except ProtocolError as error:
            log.warning("%s", error)
            return None
        same = (record.run, record.client) == (self.run, client_id)
        return record if same and record.round == round_number else None

    def save(self, record: SecretRecord) -> None:
        """Keep this, before anything that depends on it is sent."""
        write_atomic(self.path(record.client), msgspec.json.encode(record), mode=0o600)


def read_secret(path: Path) -> SecretRecord:
    """The secret in a file; ProtocolError if it is damaged."""
    with disk_errors(path):
        data = path.read_bytes()
    try:
        return decoder(SecretRecord).decode(data)
    except INVALID as error:
        raise ProtocolError(f"{path} is damaged: {error}") from error


def masked_update(path: Path, update: bytes, experiment: Experiment) -> bytes:
    """An update as integers under the masks of its client, as it goes to the server.

    It loses what its encoding loses first, so that the sum is that of an unsecured run. With
    differential privacy it has a share of the noise, which nobody sees by itself.
    """
    record, scale = read_secret(path), scale_of(experiment)
    assert scale is not None, "secured sums are exact"
    arrays, meta = decode_tensors(update, UpdateMeta, experiment.communication.encoding)
    assert (record.run, record.round, record.client) == (meta.run, meta.round, meta.client)
    try:
        plain = fixed(scale, arrays, meta.weights, samples=meta.samples, loss=meta.loss)
    except ProtocolError as error:
        raise UnfitUpdateError(str(error)) from error
    if noise := experiment.privacy.noise:
        plain = with_share(
            plain,
            scale,
            deviation=noise * experiment.privacy.clip,
            helpers=record.threshold,
            key=secrets.token_bytes(KEY_BYTES),
        )
    hidden = masked(record.me, record.peers, plain)
    about = MaskedMeta(run=meta.run, round=meta.round, client=meta.client)
    return encode_tensors({name: a.view(np.int64) for name, a in hidden.items()}, about)
