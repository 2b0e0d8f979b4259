"""PURE: named arrays as safetensors blobs with metadata, and back.

Decoding trusts nothing: for any bytes it returns valid arrays or raises ProtocolError.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec
import numpy as np
import safetensors.numpy
from msgspec import Meta

from common.arrays import Array, Arrays
from common.errors import ProtocolError
from common.wire.encodings import packed, unpacked
from common.wire.json_codec import INVALID, decodable, decoder
from common.wire.messages import Encoding, Name, Natural, Real, Text, Wire
from common.wire.tensor_blob import MAX_HEADER, METADATA, read_arrays, read_header

_Part = Annotated[str, Meta(min_length=1, max_length=64)]
MOST_MEMBERS = 100  # of one sum: their metadata fits into the header of a blob
MOST_NUMBERS = 100_000  # that a table has for a network, with its categories
OWN_HEADER = 64 * 1024**2  # of a file that we wrote ourselves
LARGEST = 1e15  # of the values of an update or a model
_META = "fedbed"  # one metadata key: safetensors writes several keys in no fixed order
_METADATA = msgspec.json.Decoder(dict[str, str])

W = TypeVar("W", bound=Wire)


class Statistics(Wire, frozen=True, kw_only=True):
    """Mean and deviation of the numbers in the tables of all clients."""

    mean: Annotated[tuple[Real, ...], Meta(max_length=MOST_NUMBERS)]
    deviation: Annotated[tuple[Real, ...], Meta(max_length=MOST_NUMBERS)]


@decodable
class ModelMeta(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """Metadata of a global model on its way to the boards.

    Boards that have data of their own standardise it by `statistics`.
    """

    run: Name
    round: Natural
    statistics: Statistics | None = None


@decodable
class UpdateMeta(Wire, frozen=True, kw_only=True):
    """Metadata of a client's update: weights of the parts, and what the server may add up.

    Nothing here may differ between two trainings of the same job: no times, no host names.
    """

    run: Name
    round: Natural
    client: Natural
    samples: Natural
    steps: Natural
    weights: Annotated[dict[_Part, Real], Meta(max_length=32)]
    loss: Real | None
    values: Annotated[dict[_Part, Real], Meta(max_length=32)] = {}  # noqa: RUF012 - copied


class Member(Wire, frozen=True, kw_only=True):
    """What the metadata of one update in a sum of several says."""

    client: Natural
    samples: Natural
    steps: Natural
    weights: Annotated[dict[_Part, Real], Meta(max_length=32)]
    loss: Real | None
    values: Annotated[dict[_Part, Real], Meta(max_length=32)] = {}  # noqa: RUF012 - copied


@decodable
class SumMeta(Wire, frozen=True, kw_only=True):
    """Metadata of the exact sum of several clients' updates, which a site sends as one.

    `client` is the lowest of its members, which are in ascending order.
    """

    run: Name
    round: Natural
    client: Natural
    members: Annotated[tuple[Member, ...], Meta(min_length=1, max_length=MOST_MEMBERS)]

    def metas(self) -> dict[int, UpdateMeta]:
        """The metadata that every member's own update had."""
        return {
            one.client: UpdateMeta(
                run=self.run,
                round=self.round,
                client=one.client,
                samples=one.samples,
                steps=one.steps,
                weights=one.weights,
                loss=one.loss,
                values=one.values,
            )
            for one in self.members
        }


@decodable
class _Kind(Wire, frozen=True, kw_only=True, forbid_unknown_fields=False):
    members: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


@decodable
class MaskedMeta(Wire, frozen=True, kw_only=True):
    """Metadata of an update under masks: whose it is; all else is under the masks."""

    run: Name
    round: Natural
    client: Natural


@decodable
class Stamp(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """What a blob says of itself: its encoding, and the metadata as JSON."""

    encoding: Text
    meta: msgspec.Raw
    scales: dict[str, float] = msgspec.field(default_factory=dict)


def encode_tensors(arrays: Arrays, meta: Wire, encoding: Encoding = "float32") -> bytes:
    """Named arrays and their metadata as one safetensors blob; same input, same bytes."""
    small, scales = packed(arrays, encoding)
    text = msgspec.Raw(msgspec.json.encode(meta))
    stamp = Stamp(encoding=encoding, meta=text, scales=dict(sorted(scales.items())))
    solid = {name: np.asarray(array, order="C") for name, array in small.items()}
    return safetensors.numpy.save(solid, {_META: msgspec.json.encode(stamp).decode()})


def decode_tensors(
    data: bytes, kind: type[W], encoding: Encoding = "float32", *, header: int = MAX_HEADER
) -> tuple[dict[str, Array], W]:
    """A safetensors blob as named, read-only arrays and their metadata.

    `header` is how long the header may be: OWN_HEADER for a file that we wrote ourselves.
    """
    stamp = _read_stamp(data, header)
    if stamp.encoding != encoding:
        raise ProtocolError(f"encoding is {stamp.encoding[:40]!r}; expected {encoding!r}")
    try:
        meta = decoder(kind).decode(stamp.meta)
    except INVALID as error:
        raise ProtocolError(f"not a valid tensor blob: {error}") from error
    arrays = unpacked(read_arrays(data, header), encoding, stamp.scales)
    for array in arrays.values():
        array.flags.writeable = False
    return arrays, meta


def decode_meta(data: bytes, kind: type[W]) -> W:
    """The metadata of a blob alone: whose it is, without reading the arrays."""
    try:
        return decoder(kind).decode(_read_stamp(data).meta)
    except INVALID as error:
        raise ProtocolError(f"not the metadata of a blob of ours: {error}") from error


def is_sum(data: bytes) -> bool:
    """Whether a blob is the sum of several updates.

    Nearly none is, and the header of one that is not does not even have the word. ProtocolError
    if it is no blob of ours and still has it.
    """
    header = int.from_bytes(data[:8], "little")
    if data.find(b"members", 8, 8 + min(header, MAX_HEADER)) < 0:
        return False
    return decode_meta(data, _Kind).members is not msgspec.UNSET


def _read_stamp(data: bytes, most: int = MAX_HEADER) -> Stamp:
    header, _ = read_header(data, most)
    try:
        metadata = _METADATA.decode(header[METADATA])
        return decoder(Stamp).decode(metadata[_META])
    except (*INVALID, KeyError) as error:
        raise ProtocolError(f"not a tensor blob of ours: {error!r}") from error


def check_arrays(arrays: Arrays, like: Arrays) -> None:
    """Refuse arrays without exactly these names, shapes and kinds, or that are not finite."""
    if set(arrays) != set(like):
        odd = sorted(set(arrays) ^ set(like))
        raise ProtocolError(f"arrays missing or unknown: {', '.join(odd)[:200]}")
    for name, wanted in like.items():
        array = arrays[name]
        if array.dtype != wanted.dtype or array.shape != wanted.shape:
            raise ProtocolError(
                f"{name} is {array.dtype}{list(array.shape)}; "
                f"expected {wanted.dtype}{list(wanted.shape)}"
            )
        if not _is_moderate(array):
            raise ProtocolError(
                f"{name} has values that are not finite or beyond {LARGEST:.0e} "
                "(the training diverged; a smaller training.learning_rate or "
                "training.grad_clip helps)"
            )


def _is_moderate(array: Array) -> bool:
    """Whether sums and squares of these values stay finite in float32."""
    if not np.issubdtype(array.dtype, np.floating) or not array.size:
        return True
    return float(array.min()) >= -LARGEST and float(array.max()) <= LARGEST  # NaN is neither
