from __future__ import annotations

import gzip
import hashlib
import io
import zipfile
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from common.data.datasets.idx import EmnistFiles, EmnistZip, IdxFile, IdxFiles
from common.errors import DataError

IMAGES = np.arange(6 * 28 * 28, dtype=np.uint32).astype(np.uint8).reshape(6, 28, 28)
LABELS = np.array([0, 1, 2, 2, 1, 0], np.uint8)
PART = (IdxFile("letters-images", (6, 28, 28)), IdxFile("letters-labels", (6,)))


def idx(values: npt.NDArray[np.uint8]) -> bytes:
    header = bytes([0, 0, 8, values.ndim])
    return header + b"".join(n.to_bytes(4, "big") for n in values.shape) + values.tobytes()


def write(folder: Path, labels: npt.NDArray[np.uint8] = LABELS) -> None:
    (folder / "letters-images.gz").write_bytes(gzip.compress(idx(IMAGES)))
    (folder / "letters-labels").write_bytes(idx(labels))


def test_images_and_labels_are_read_plain_or_compressed(tmp_path: Path) -> None:
    write(tmp_path)
    pool = IdxFiles("letters", (PART, PART)).read(tmp_path)
    assert np.array_equal(pool.images[:], np.concatenate([IMAGES, IMAGES])[:, None])
    assert pool.labels.tolist() == [*LABELS, *LABELS]


def test_content_with_another_digest_is_refused_and_named(tmp_path: Path) -> None:
    write(tmp_path)
    right = hashlib.sha256(idx(LABELS)).hexdigest()
    for digest, fits in ((right, True), (right[::-1], False)):
        part = (PART[0], IdxFile("letters-labels", (6,), digest))
        if fits:
            assert len(IdxFiles("letters", (part,)).read(tmp_path).labels) == 6
        else:
            with pytest.raises(DataError, match=r"letters-labels .*not that of letters"):
                IdxFiles("letters", (part,)).read(tmp_path)


def test_emnist_is_turned_upright(tmp_path: Path) -> None:
    write(tmp_path)
    pool = EmnistFiles((PART,), 3).read(tmp_path)
    assert np.array_equal(pool.images[:][:, 0], IMAGES.transpose(0, 2, 1))


@pytest.mark.parametrize("labels", [[0, 1, 2, 2, 1, 1], [0, 1, 3, 3, 1, 0], [0, 1, 1, 0, 1, 0]])
def test_emnist_with_classes_of_different_sizes_is_refused(
    tmp_path: Path, labels: list[int]
) -> None:
    write(tmp_path, np.array(labels, np.uint8))
    with pytest.raises(DataError, match=r"letters-labels is damaged: its 3 classes"):
        EmnistFiles((PART,), 3).read(tmp_path)


def archive(path: Path) -> str:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("gzip/letters-images.gz", gzip.compress(idx(IMAGES)))
        file.writestr("gzip/letters-labels.gz", gzip.compress(idx(LABELS)))
    return hashlib.md5(path.read_bytes()).hexdigest()


def test_emnist_is_read_from_the_archive_of_nist(tmp_path: Path) -> None:
    md5 = archive(tmp_path / "gzip.zip")
    pool = EmnistZip((PART,), md5).read(tmp_path)
    assert np.array_equal(pool.images[:][:, 0], IMAGES.transpose(0, 2, 1))
    assert pool.labels.tolist() == LABELS.tolist()


def test_a_damaged_archive_is_refused_by_its_digest(tmp_path: Path) -> None:
    md5 = archive(tmp_path / "gzip.zip")
    content = bytearray((tmp_path / "gzip.zip").read_bytes())
    content[50] ^= 1
    (tmp_path / "gzip.zip").write_bytes(content)
    with pytest.raises(DataError, match=rf"gzip\.zip is damaged: its md5 is .*expected {md5}"):
        EmnistZip((PART,), md5).read(tmp_path)


def test_an_archive_without_the_split_is_refused(tmp_path: Path) -> None:
    stream = io.BytesIO()
    zipfile.ZipFile(stream, "w").close()
    (tmp_path / "gzip.zip").write_bytes(stream.getvalue())
    md5 = hashlib.md5(stream.getvalue()).hexdigest()
    with pytest.raises(DataError, match=r"gzip\.zip cannot be read"):
        EmnistZip((PART,), md5).read(tmp_path)
