from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from common.errors import ProtocolError
from common.wire.assembly import Assembly
from common.wire.chunks import CHUNK, cut
from common.wire.messages import Chunk

BLOB = np.random.default_rng(1).bytes(3 * CHUNK + 77)
PARTS = list(cut(BLOB, run="r", round_number=2, client=5))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.permutations(range(4)), st.lists(st.integers(0, 3), max_size=3), st.booleans())
def test_parts_in_any_order_and_any_number_of_times_make_the_blob(
    tmp_path: Path, order: list[int], again: list[int], in_memory: bool
) -> None:
    blob = Assembly(tmp_path / "deep" / "blob", PARTS[0].header, in_memory=in_memory)
    *first, last = order
    for part in [*first, *(p for p in again if p != last)]:
        assert not blob.add(PARTS[part])
    assert blob.add(PARTS[last])
    assert blob.add(PARTS[last])
    assert blob.take() == BLOB
    blob.keep(tmp_path / "deep" / "kept")
    assert (tmp_path / "deep" / "kept").read_bytes() == BLOB
    assert len(list((tmp_path / "deep").iterdir())) == 1
    (tmp_path / "deep" / "kept").unlink()


either = pytest.mark.parametrize("in_memory", [True, False])


@either
@pytest.mark.parametrize("size", [0, 1, CHUNK])
def test_a_blob_of_one_part_is_complete_at_once(
    tmp_path: Path, size: int, in_memory: bool
) -> None:
    (part,) = cut(bytes(size), run="r", round_number=1, client=None)
    blob = Assembly(tmp_path / "blob", part.header, in_memory=in_memory)
    assert blob.add(part)
    assert blob.take() == bytes(size)


@either
def test_parts_that_do_not_make_the_announced_blob_are_refused(
    tmp_path: Path, in_memory: bool
) -> None:
    blob = Assembly(tmp_path / "blob", PARTS[0].header, in_memory=in_memory)
    for part in PARTS[:-1]:
        blob.add(part)
    assert blob.add(Chunk(PARTS[-1].header, bytes(77)))
    with pytest.raises(ProtocolError, match="digests differ"):
        blob.take()


def test_only_parts_of_the_very_same_blob_fit(tmp_path: Path) -> None:
    blob = Assembly(tmp_path / "blob", PARTS[0].header, in_memory=False)
    assert all(blob.fits(part.header) for part in PARTS)
    changes: list[dict[str, object]] = [
        {"run": "s"},
        {"round": 3},
        {"client": None},
        {"client": 6},
        {"digest": "0" * 32},
        {"size": 3 * CHUNK + 78},
    ]
    for change in changes:
        assert not blob.fits(msgspec.structs.replace(PARTS[1].header, **change))


def test_a_new_assembly_does_not_see_what_an_old_one_left(tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(bytes(5 * CHUNK))
    blob = Assembly(tmp_path / "blob", PARTS[0].header, in_memory=False)
    assert [blob.add(part) for part in PARTS] == [False, False, False, True]
    assert blob.take() == BLOB


@either
def test_a_discarded_blob_leaves_no_file(tmp_path: Path, in_memory: bool) -> None:
    blob = Assembly(tmp_path / "blob", PARTS[0].header, in_memory=in_memory)
    blob.add(PARTS[0])
    blob.discard()
    blob.discard()
    assert list(tmp_path.iterdir()) == []
