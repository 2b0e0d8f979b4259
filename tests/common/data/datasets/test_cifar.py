from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from common.data.datasets.cifar import CifarBatch, CifarBatches
from common.errors import DataError
from common.rng import generator

PIXELS = generator(1, "pixels").integers(0, 256, (4, 3072)).astype(np.uint8)
LABELS = bytes([3, 1, 99, 1])


def string(text: bytes) -> bytes:
    return b"U" + bytes([len(text)]) + text + b"q\x07"


def array(pixels: npt.NDArray[np.uint8]) -> bytes:
    """An array as the official files hold one."""
    return (
        b"cnumpy.core.multiarray\n_reconstruct\nq\x01cnumpy\nndarray\nq\x02K\x00\x85U\x01b\x87R"
        b"q\x03(K\x01M" + len(pixels).to_bytes(2, "little") + b"M\x00\x0c\x86cnumpy\ndtype\n"
        b"q\x04U\x02u1K\x00K\x01\x87Rr\x00\x01\x00\x00(K\x03U\x01|NNNJ\xff\xff\xff\xff"
        b"J\xff\xff\xff\xffK\x00tb\x89T" + pixels.size.to_bytes(4, "little")
    ) + (pixels.tobytes() + b"tb")


def batch(labels: bytes = LABELS, other: bytes = b"") -> bytes:
    """A file in the layout of the official ones; their labels come in pieces of 1000."""
    half = len(labels) // 2
    first, second = (
        b"(" + b"".join(b"K" + bytes([label]) for label in piece) + b"e"
        for piece in (labels[:half], labels[half:])
    )
    names = b"".join(string(f"image_{i}.png".encode()) for i in range(len(PIXELS)))
    return (
        b"\x80\x02}q\x05(" + string(b"batch_label") + string(b"made by a test")
        + string(b"coarse_labels") + b"]q\x06(K\x05K\x06K\x07K\x08e"
        + string(b"fine_labels") + b"]q\x06" + first + second
        + string(b"data") + array(PIXELS) + string(b"filenames") + b"]q\x06(" + names
        + b"e" + other + b"u."
    )  # fmt: skip


def layout(content: bytes, samples: int = 4) -> CifarBatches:
    known = CifarBatch("train", hashlib.md5(content).hexdigest(), samples)
    return CifarBatches((known,), "fine_labels")


def test_images_and_fine_labels_are_read_from_the_official_layout(tmp_path: Path) -> None:
    (tmp_path / "train").write_bytes(batch())
    pool = layout(batch()).read(tmp_path)
    assert np.array_equal(pool.images[:], PIXELS.reshape(4, 3, 32, 32))
    assert pool.labels.tolist() == list(LABELS)
    assert [pool.images[:].dtype.name, pool.labels.dtype.name] == ["uint8", "int64"]


def test_a_file_with_another_digest_is_refused_and_named(tmp_path: Path) -> None:
    (tmp_path / "train").write_bytes(batch()[:-1])
    with pytest.raises(DataError, match=r"train is damaged: its md5 is"):
        layout(batch()).read(tmp_path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (batch()[:-1], "pickle exhausted before seeing STOP"),
        (batch()[:200], "expected .* bytes in a string"),
        (b"", "pickle exhausted before seeing STOP"),
        (batch(labels=LABELS[:2]), "it has 2 labels"),
        (batch(other=b"\x8c\x02os"), "SHORT_BINUNICODE at byte"),
        (batch(other=b"\x93"), "STACK_GLOBAL at byte"),
        (batch(other=b"\xff"), "opcode .* unknown"),
        (batch(other=b"cos\n"), "damaged"),
        (b"\x80\x02}.", "it has 0 labels and 0 bytes"),
    ],
)
def test_another_layout_is_refused_even_with_the_right_digest(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    (tmp_path / "train").write_bytes(content)
    with pytest.raises(DataError, match=reason):
        layout(content).read(tmp_path)


def test_what_unpickling_would_run_is_not_run(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    attack = b"cpathlib\nPosixPath\n(U" + bytes([len(str(marker))]) + str(marker).encode()
    attack += b"tR" + b"cos\nmkdir\nq\x01U" + bytes([len(str(marker))]) + str(marker).encode()
    content = batch(other=attack + b"\x85R")
    (tmp_path / "train").write_bytes(content)
    assert len(layout(content).read(tmp_path).labels) == 4
    assert not marker.exists()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=60), st.integers(0, 500))
def test_any_bytes_are_a_batch_or_refused(tmp_path: Path, noise: bytes, place: int) -> None:
    content = batch()[:place] + noise + batch()[place + len(noise) :]
    (tmp_path / "train").write_bytes(content)
    try:
        pool = layout(content).read(tmp_path)
    except DataError as error:
        assert "train is damaged" in str(error)  # noqa: PT017 (refusing is one of two ends)
    else:
        assert pool.images[:].shape == (4, 3, 32, 32)
