from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from common.data.datasets.tiny_imagenet import TinyFolder, TinyImages, TinyZip
from common.errors import DataError
from common.rng import generator

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")

TINY = TinyImages(classes=3, each=2, validation=4)
IDS = ["n03", "n01", "n02"]


def jpeg(brightness: int, mode: str = "RGB", side: int = 64) -> bytes:
    stream = io.BytesIO()
    Image.new("L", (side, side), brightness).convert(mode).save(stream, "JPEG")
    return stream.getvalue()


def files() -> dict[str, bytes]:
    """A small Tiny ImageNet whose images have their class as brightness."""
    made = {"wnids.txt": "\n".join(IDS).encode()}
    for wordnet in IDS:
        for number in range(2):
            name = f"train/{wordnet}/images/{wordnet}_{number}.JPEG"
            made[name] = jpeg(40 * int(wordnet[1:]), "L" if number else "RGB")
    classes = ["n02", "n01", "n03", "n02"]
    lines = [f"val_{i}.JPEG\t{name}\t0\t32\t44\t62" for i, name in enumerate(classes)]
    made["val/val_annotations.txt"] = "\n".join(lines).encode()
    for number, name in enumerate(classes):
        made[f"val/images/val_{number}.JPEG"] = jpeg(40 * int(name[1:]))
    return made


def unpack(folder: Path, **changed: bytes) -> None:
    for name, content in {**files(), **changed}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def test_training_and_validation_images_are_read_as_32x32(tmp_path: Path) -> None:
    unpack(tmp_path)
    pool = TinyFolder(TINY).read(tmp_path)
    assert pool.labels.tolist() == [0, 0, 1, 1, 2, 2, 1, 0, 2, 1]
    assert pool.images[:].shape == (10, 3, 32, 32)
    means = pool.images[:].reshape(10, -1).mean(1)
    assert np.abs(means - 40 * (pool.labels + 1)).max() < 2


def test_a_pixel_is_the_mean_of_four(tmp_path: Path) -> None:
    noise = generator(1, "noise").integers(0, 256, (64, 64, 3)).astype(np.uint8)
    stream = io.BytesIO()
    Image.fromarray(noise).save(stream, "JPEG", quality=95)
    unpack(tmp_path, **{"train/n01/images/n01_0.JPEG": stream.getvalue()})
    with Image.open(stream) as picture:
        seen = np.asarray(picture).astype(float)
    expected = seen.reshape(32, 2, 32, 2, 3).mean((1, 3)).transpose(2, 0, 1)
    first = TinyFolder(TINY).read(tmp_path).images[:1][0]
    assert np.abs(first - expected).max() <= 0.5


def test_the_archive_gives_the_same_as_the_folder(tmp_path: Path) -> None:
    unpack(tmp_path)
    path = tmp_path / "tiny-imagenet-200.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files().items():
            archive.writestr(f"tiny-imagenet-200/{name}", content)
    md5 = hashlib.md5(path.read_bytes()).hexdigest()
    one, other = TinyZip(md5, TINY).read(tmp_path), TinyFolder(TINY).read(tmp_path)
    assert np.array_equal(one.images[:], other.images[:])
    assert np.array_equal(one.labels, other.labels)
    with pytest.raises(DataError, match=r"tiny-imagenet-200\.zip is damaged: its md5"):
        TinyZip(md5[::-1], TINY).read(tmp_path)
    with pytest.raises(DataError, match=r"tiny-imagenet-200\.zip is damaged: train/n01"):
        TinyZip(md5, TinyImages(3, 3, 4)).read(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("wnids.txt", b"n01\nn02", r"wnids\.txt is damaged: expected 3 classes"),
        ("val/val_annotations.txt", b"val_0.JPEG\tn01", "it has no class of val_1"),
        ("val/val_annotations.txt", b"val_0.JPEG\tn04", "it has no class of val_0"),
        ("train/n02/images/n02_1.JPEG", b"no picture", r"n02_1\.JPEG is damaged"),
        ("train/n02/images/n02_1.JPEG", jpeg(9)[:300], r"n02_1\.JPEG is damaged"),
        ("train/n02/images/n02_1.JPEG", jpeg(9, side=32), r"it has \(32, 32, 3\) values"),
    ],
)
def test_a_damaged_file_is_named(
    tmp_path: Path, name: str, content: bytes, reason: str
) -> None:
    unpack(tmp_path, **{name: content})
    with pytest.raises(DataError, match=reason):
        TinyFolder(TINY).read(tmp_path)


def test_a_missing_image_is_named(tmp_path: Path) -> None:
    unpack(tmp_path)
    (tmp_path / "val/images/val_3.JPEG").unlink()
    with pytest.raises(DataError, match=r"val_3\.JPEG cannot be read"):
        TinyFolder(TINY).read(tmp_path)
