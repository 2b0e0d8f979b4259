from __future__ import annotations

import gzip
import hashlib
import shutil
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from common.data import datasets
from common.data.datasets import dataset_info, load_dataset, require_dataset
from common.data.datasets.idx import IdxFiles
from common.data.datasets.registry import ENTRIES
from common.data.datasets.torchvision_import import import_datasets
from common.errors import ConfigError, DataError

MINI = datasets.BUILT_IN
DEBIAN = datasets.SYSTEM / "fashion-mnist"
full = pytest.mark.skipif(
    not DEBIAN.is_dir(),
    reason="needs the full Fashion-MNIST (Debian: apt install dataset-fashion-mnist)",
)


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without datasets and without a network."""
    monkeypatch.setattr(datasets, "SYSTEM", tmp_path / "system")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("FEDBED_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_the_built_in_dataset_has_ten_thousand_samples_of_ten_classes() -> None:
    dataset, info = load_dataset("fmnist-mini"), dataset_info("fmnist-mini")
    assert dataset.inputs[0][:].shape == (10_000, 1, 28, 28)
    assert (info.size, info.shape, info.classes) == (10_000, (1, 28, 28), dataset.classes)
    assert [dataset.inputs[0][:].dtype.name, dataset.targets.dtype.name] == ["uint8", "int64"]
    assert np.bincount(dataset.targets).tolist() == [1000] * 10
    assert dataset.targets[:5].tolist() == [9, 2, 1, 1, 6]


def test_the_licence_of_the_built_in_dataset_is_kept_beside_it() -> None:
    licence = (MINI / "LICENSE").read_text()
    assert "Copyright (c) 2017 Zalando SE, https://tech.zalando.com" in licence
    assert "https://github.com/zalandoresearch/fashion-mnist" in licence


@full
def test_the_full_dataset_is_the_pool_of_both_parts() -> None:
    dataset, mini = load_dataset("fashion-mnist"), load_dataset("fmnist-mini")
    assert dataset.inputs[0][:].shape == (70_000, 1, 28, 28)
    assert dataset_info("fashion-mnist").size == len(dataset.targets) == 70_000
    assert np.array_equal(dataset.inputs[0][60_000:], mini.inputs[0][:])
    assert np.array_equal(dataset.targets[60_000:], mini.targets)


@full
@pytest.mark.parametrize("layout", ["fashion-mnist", "FashionMNIST/raw", "."])
@pytest.mark.parametrize("plain", [True, False])
def test_the_dataset_is_found_where_the_environment_says(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch, layout: str, *, plain: bool
) -> None:
    folder = nowhere / "given" / layout
    folder.mkdir(parents=True)
    for path in DEBIAN.iterdir():
        if plain:
            (folder / path.stem).write_bytes(b"")
        else:
            shutil.copy(path, folder)
    monkeypatch.setenv("FEDBED_DATA", str(nowhere / "given"))
    assert require_dataset("fashion-mnist").resolve() == folder.resolve()


@full
def test_what_torchvision_downloaded_is_found(nowhere: Path) -> None:
    one, other = nowhere / "home/.cache/fedbed/FashionMNIST", nowhere / "data/FashionMNIST"
    (one / "raw").mkdir(parents=True)
    for path in DEBIAN.iterdir():
        (one / "raw" / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
    assert require_dataset("fashion-mnist").resolve() == one / "raw"
    assert len(load_dataset("fashion-mnist").targets) == 70_000
    other.parent.mkdir()
    one.rename(other)
    assert require_dataset("fashion-mnist").resolve() == other / "raw"


@pytest.mark.slow  # torchvision, asked to download, takes seconds to import
def test_a_dataset_that_is_nowhere_names_the_places_and_the_remedies(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDBED_DATA", str(nowhere / "given"))
    with pytest.raises(DataError) as caught:
        require_dataset("fashion-mnist")
    message = str(caught.value)
    for place in (
        "given/fashion-mnist",
        "given/FashionMNIST/raw",
        "home/.cache/fedbed/FashionMNIST/raw",
        "data/FashionMNIST/raw",
        "data/fashion-mnist",
        "system/fashion-mnist",
    ):
        assert place in message
    assert "cannot be downloaded" in message
    assert "\n" not in message
    assert not [path for path in nowhere.rglob("*") if path.is_file()]
    assert "apt install dataset-fashion-mnist" in message
    assert "set FEDBED_DATA" in message


def test_a_dataset_that_cannot_be_downloaded_says_where_to_put_its_files(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = replace(ENTRIES["mnist"], folders=("mine",), fetch=None)
    monkeypatch.setitem(ENTRIES, "mnist", private)
    with pytest.raises(DataError, match=r"data/mine, .*; set FEDBED_DATA to the folder"):
        require_dataset("mnist")


@full
@pytest.mark.slow
def test_a_download_is_kept_and_found_the_next_time(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def downloads(root: str, *, download: bool) -> None:
        shutil.copytree(DEBIAN, Path(root, "FashionMNIST", "raw"))

    # stands in for the download server, which a test cannot rely on
    monkeypatch.setattr(import_datasets(), "FashionMNIST", downloads)
    folder = nowhere / "home/.cache/fedbed/FashionMNIST/raw"
    assert require_dataset("fashion-mnist") == folder
    monkeypatch.undo()
    monkeypatch.setenv("HOME", str(nowhere / "home"))
    assert require_dataset("fashion-mnist") == folder
    assert [path.name for path in folder.parent.parent.iterdir()] == ["FashionMNIST"]


def test_the_built_in_dataset_needs_nothing_from_the_machine(nowhere: Path) -> None:
    assert len(load_dataset("fmnist-mini").targets) == 10_000


def test_an_unknown_dataset_names_the_nearest_one() -> None:
    for ask in (dataset_info, load_dataset, require_dataset):
        with pytest.raises(ConfigError, match=r"'fashon-mnist'; did you mean 'fashion-mnist'"):
            ask("fashon-mnist")


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda content: b"\0\0\x08\x01" + content[4:], "does not begin as idx"),
        (lambda content: content[:4] + b"\0\0\x27\x11" + content[8:], "does not begin as idx"),
        (lambda content: content[:-1], "its length is not 7840016"),
        (lambda content: content + b"\0", "its length is not 7840016"),
        (lambda content: content[:-1] + b"\x07", "its content is not that of Fashion-MNIST"),
        (lambda content: b"", "does not begin as idx"),
    ],
)
@pytest.mark.parametrize("packed", [True, False])
def test_a_damaged_file_is_named(tmp_path: Path, monkeypatch, damage, reason, packed) -> None:  # type: ignore[no-untyped-def]
    shutil.copytree(MINI, tmp_path / "fmnist_mini")
    path = tmp_path / "fmnist_mini" / "t10k-images-idx3-ubyte.gz"
    content = damage(gzip.decompress(path.read_bytes()))
    path.unlink()
    if packed:
        path.write_bytes(gzip.compress(content, 0))
    else:
        path = path.with_suffix("")
        path.write_bytes(content)
    monkeypatch.setattr(datasets, "BUILT_IN", tmp_path / "fmnist_mini")
    with pytest.raises(DataError, match=reason) as caught:
        load_dataset("fmnist-mini")
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("kept", [0, 5, 1000, -1])
def test_a_torn_archive_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    shutil.copytree(MINI, tmp_path / "fmnist_mini")
    path = tmp_path / "fmnist_mini" / "t10k-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:kept])
    monkeypatch.setattr(datasets, "BUILT_IN", tmp_path / "fmnist_mini")
    with pytest.raises(DataError, match=r"t10k-images-idx3-ubyte\.gz"):
        load_dataset("fmnist-mini")


@pytest.mark.skipif(find_spec("torchvision") is None, reason="torchvision is not installed")
@pytest.mark.slow
def test_torchvision_can_be_imported_here_again_and_again() -> None:
    assert hasattr(import_datasets(), "FashionMNIST")
    assert import_datasets() is import_datasets()


def test_knowing_and_loading_a_dataset_needs_neither_torch_nor_torchvision() -> None:
    program = (
        "import sys; import common.learning.specs\n"
        "from common.data import datasets, partition, samples\n"
        "datasets.dataset_info('fashion-mnist'); datasets.load_dataset('fmnist-mini')\n"
        "assert not {'torch', 'torchvision'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_the_digest_table_is_that_of_the_built_in_files() -> None:
    (layout,) = ENTRIES["fmnist-mini"].layouts
    assert isinstance(layout, IdxFiles)
    for file in layout.parts[0]:
        content = gzip.decompress((MINI / f"{file.name}.gz").read_bytes())
        assert hashlib.sha256(content).hexdigest() == file.sha256
