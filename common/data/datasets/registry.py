"""The known datasets: their files and digests, their folders, and how to download them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from common.data.datasets.base import DatasetInfo, Layout
from common.data.datasets.cifar import CifarBatch, CifarBatches
from common.data.datasets.idx import EmnistFiles, EmnistZip, IdxFile, IdxFiles
from common.data.datasets.shakespeare import PlaysArchive, PlaysText
from common.data.datasets.tiny_imagenet import TinyFolder, TinyZip

TINY_IMAGENET = "http://cs231n.stanford.edu/tiny-imagenet-200.zip"
TINY_IMAGENET_MD5 = "90528d7ca1a48142e341f4ef8d21d0de"
PLAYS = "https://www.gutenberg.org/files/100/old/old/1994-01-100.zip"


@dataclass(frozen=True, slots=True)
class Entry:
    """A dataset: what it is, the layouts of its files, their folders, and how to get them.

    `fetch(torchvision.datasets, root)` downloads the files of one of the layouts into the first
    of the folders, below `root`. A dataset without folders is built in.
    """

    info: DatasetInfo
    layouts: tuple[Layout, ...]
    folders: tuple[str, ...] = ()
    fetch: Callable[[ModuleType, Path], None] | None = None
    remedy: str = ""


_FASHION_TEST = (
    IdxFile(
        "t10k-images-idx3-ubyte",
        (10_000, 28, 28),
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    ),
    IdxFile(
        "t10k-labels-idx1-ubyte",
        (10_000,),
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
)
_FASHION_TRAIN = (
    IdxFile(
        "train-images-idx3-ubyte",
        (60_000, 28, 28),
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    ),
    IdxFile(
        "train-labels-idx1-ubyte",
        (60_000,),
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    ),
)
_MNIST_TEST = (
    IdxFile(
        "t10k-images-idx3-ubyte",
        (10_000, 28, 28),
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    ),
    IdxFile(
        "t10k-labels-idx1-ubyte",
        (10_000,),
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
)
_MNIST_TRAIN = (
    IdxFile(
        "train-images-idx3-ubyte",
        (60_000, 28, 28),
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    ),
    IdxFile(
        "train-labels-idx1-ubyte",
        (60_000,),
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    ),
)
_EMNIST = (
    (
        IdxFile("emnist-balanced-train-images-idx3-ubyte", (112_800, 28, 28)),
        IdxFile("emnist-balanced-train-labels-idx1-ubyte", (112_800,)),
    ),
    (
        IdxFile("emnist-balanced-test-images-idx3-ubyte", (18_800, 28, 28)),
        IdxFile("emnist-balanced-test-labels-idx1-ubyte", (18_800,)),
    ),
)
_EMNIST_MD5 = "58c8d27c78d21e728a6bc7b3cc06412e"
_CIFAR_10 = (
    CifarBatch("data_batch_1", "c99cafc152244af753f735de768cd75f", 10_000),
    CifarBatch("data_batch_2", "d4bba439e000b95fd0a9bffe97cbabec", 10_000),
    CifarBatch("data_batch_3", "54ebc095f3ab1f0389bbae665268c751", 10_000),
    CifarBatch("data_batch_4", "634d18415352ddfa80567beed471001a", 10_000),
    CifarBatch("data_batch_5", "482c414d41f54cd18b22e5b47cb7c3cb", 10_000),
    CifarBatch("test_batch", "40351d587109b95175f43aff81a1287e", 10_000),
)
_CIFAR_100 = (
    CifarBatch("train", "16019d7e3df5f24257cddd939b257f8d", 50_000),
    CifarBatch("test", "f0ef6b0ae62326f3e7ffdfab6717acfc", 10_000),
)
_PLAYS_SHA256 = "069454f7526485d606d7c8ee4827b9d1d48d2a566983400bc747d2865aa458fb"


def _fetch_emnist(torchvision: ModuleType, root: Path) -> None:
    kind, folder = torchvision.EMNIST, root / "EMNIST" / "raw"
    torchvision.utils.download_url(kind.url, str(folder), "gzip.zip", kind.md5)


# Torchvision's own CIFAR10 and CIFAR100 would unpickle what they have just downloaded.
def _fetch_cifar(torchvision: ModuleType, root: Path, kind: str) -> None:
    files = getattr(torchvision, kind)
    torchvision.utils.download_and_extract_archive(files.url, str(root), md5=files.tgz_md5)


def _fetch_tiny_imagenet(torchvision: ModuleType, root: Path) -> None:
    folder = str(root / "tiny-imagenet")
    torchvision.utils.download_url(TINY_IMAGENET, folder, md5=TINY_IMAGENET_MD5)


def _fetch_plays(torchvision: ModuleType, root: Path) -> None:
    torchvision.utils.download_and_extract_archive(PLAYS, str(root / "shakespeare"))


_ALL = (
    Entry(
        # all of it is Fashion-MNIST's official test set; the division into two parts is ours
        DatasetInfo("fmnist-mini", (1, 28, 28), 10, 10_000, 8_000),
        (IdxFiles("Fashion-MNIST", (_FASHION_TEST,)),),
    ),
    Entry(
        DatasetInfo("fashion-mnist", (1, 28, 28), 10, 70_000, 60_000),
        (IdxFiles("Fashion-MNIST", (_FASHION_TRAIN, _FASHION_TEST)),),
        ("FashionMNIST/raw", "fashion-mnist"),
        lambda torchvision, root: torchvision.FashionMNIST(str(root), download=True),
        "on Debian: apt install dataset-fashion-mnist",
    ),
    Entry(
        DatasetInfo("mnist", (1, 28, 28), 10, 70_000, 60_000),
        (IdxFiles("MNIST", (_MNIST_TRAIN, _MNIST_TEST)),),
        ("MNIST/raw", "mnist"),
        lambda torchvision, root: torchvision.MNIST(str(root), download=True),
    ),
    Entry(
        DatasetInfo("emnist", (1, 28, 28), 47, 131_600, 112_800),
        (EmnistZip(_EMNIST, _EMNIST_MD5), EmnistFiles(_EMNIST, 47)),
        ("EMNIST/raw", "emnist"),
        _fetch_emnist,
    ),
    Entry(
        DatasetInfo("cifar-10", (3, 32, 32), 10, 60_000, 50_000),
        (CifarBatches(_CIFAR_10, "labels"),),
        ("cifar-10-batches-py", "cifar10/cifar-10-batches-py", "cifar10", "cifar-10"),
        lambda torchvision, root: _fetch_cifar(torchvision, root, "CIFAR10"),
    ),
    Entry(
        DatasetInfo("cifar-100", (3, 32, 32), 100, 60_000, 50_000),
        (CifarBatches(_CIFAR_100, "fine_labels"),),
        ("cifar-100-python", "cifar100/cifar-100-python", "cifar100", "cifar-100"),
        lambda torchvision, root: _fetch_cifar(torchvision, root, "CIFAR100"),
    ),
    Entry(
        DatasetInfo("tiny-imagenet", (3, 32, 32), 200, 110_000, 100_000),
        (TinyZip(TINY_IMAGENET_MD5), TinyFolder()),
        ("tiny-imagenet", "tiny-imagenet-200", "tiny-imagenet/tiny-imagenet-200"),
        _fetch_tiny_imagenet,
    ),
    Entry(
        DatasetInfo(
            "shakespeare", (80,), 80, 4_209_146, 4_209_146, natural=True, kind="next-token"
        ),
        (PlaysArchive(_PLAYS_SHA256), PlaysText()),
        ("shakespeare",),
        _fetch_plays,
    ),
)
ENTRIES = {entry.info.name: entry for entry in _ALL}
