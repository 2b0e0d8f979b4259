from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from common.config import DataSection, EvaluationSection, Experiment, ExperimentSection
from common.data.datasets import load_dataset
from common.data.rebalance import Rebalance
from common.data.shard_file import read_shard
from common.data.shards import ShardSet
from common.errors import ConfigError, DataError

DATA = DataSection(clients=40)


def shards_of(
    root: Path,
    data: DataSection = DATA,
    seed: int = 1,
    *,
    union: int = 0,
    rebalance: Rebalance | None = None,
) -> ShardSet:
    experiment = Experiment(
        experiment=ExperimentSection(seed=seed),
        data=data,
        evaluation=EvaluationSection(union_samples=union),
    )
    return ShardSet(root, experiment, rebalance)


def key_of(data: DataSection = DATA, seed: int = 1, *, union: int = 0) -> str:
    return shards_of(Path(), data, seed, union=union).key


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> ShardSet:
    return shards_of(tmp_path_factory.mktemp("shards")).ensure(range(40))


def test_the_shards_together_are_the_whole_dataset(made: ShardSet) -> None:
    dataset = load_dataset("fmnist-mini")
    shards = [made.load(client) for client in range(40)]
    parts = [part for shard in shards for part in (shard.train, shard.test)]
    images = np.concatenate([part.inputs[0] for part in parts])
    labels = np.concatenate([part.targets for part in parts])
    # no two clients hold the same image, so sorting by content lines both pools up
    ours = np.lexsort(images.reshape(10_000, -1)[:, ::16].T)
    theirs = np.lexsort(dataset.inputs[0][:].reshape(10_000, -1)[:, ::16].T)
    assert np.array_equal(labels[ours], dataset.targets[theirs])
    assert np.array_equal(images[ours].sum((1, 2, 3)), dataset.inputs[0][theirs].sum((1, 2, 3)))


def test_a_shard_counts_the_classes_of_its_training_samples(made: ShardSet) -> None:
    shard = made.load(7)
    assert shard.counts.tolist() == np.bincount(shard.train.targets, minlength=10).tolist()
    assert shard.counts.sum() == len(shard.train)
    assert len(shard.train) == round(0.75 * (len(shard.train) + len(shard.test)))
    assert [shard.train.inputs[0].dtype.name, shard.train.targets.dtype.name] == [
        "uint8",
        "int64",
    ]
    assert shard.train.inputs[0].shape[1:] == (1, 28, 28)


def test_a_shard_is_the_same_whoever_makes_it(made: ShardSet, tmp_path: Path) -> None:
    alone = shards_of(tmp_path).ensure([7]).folder
    assert alone.name == made.key
    assert [path.name for path in alone.iterdir()] == ["client-7.safetensors"]
    name = "client-7.safetensors"
    assert (alone / name).read_bytes() == (made.folder / name).read_bytes()


def test_shards_that_are_there_are_not_made_again(tmp_path: Path) -> None:
    folder = shards_of(tmp_path).ensure([0, 1]).folder
    before = {path.name: path.stat().st_ino for path in folder.iterdir()}
    shards_of(tmp_path).ensure([1, 0, 2])
    after = {path.name: path.stat().st_ino for path in folder.iterdir()}
    assert after == {**before, "client-2.safetensors": after["client-2.safetensors"]}


def test_the_key_names_all_that_the_content_depends_on() -> None:
    changes: list[dict[str, object]] = [
        {},
        {"dataset": "fashion-mnist"},
        {"clients": 41},
        {"partition": "iid"},
        {"alpha": 0.1},
        {"min_size": 11},
        {"train_ratio": 0.5},
        {"stratify": True},
        {"partition": "classes"},
        {"partition": "classes", "classes_per_client": 3},
        {"partition": "dirichlet-client"},
        {"partition": "dirichlet-client", "alpha": 0.1},
        {"partition": "ls"},
        {"partition": "ls", "alpha": 0.1},
        {"partition": "qs"},
        {"partition": "qs", "alpha": 0.1},
        {"partition": "qs", "min_size": 11},
        {"partition": "lsqs"},
        {"partition": "lsqs", "alpha": 0.1},
        {"partition": "lsqs", "min_size": 11},
        {"test": "official"},
        {"test": "official-like"},
        {"share": 0.1},
        {"share": 0.1, "share_given": 0.6},
        {"share": 0.1, "share_removed": True},
        {"partition": "natural"},
        {"partition": "natural", "min_size": 11},
        {"max_samples": 100},
        {"max_samples": 101},
        {"partition": "iid", "max_samples": 100},
    ]
    base: dict[str, object] = {"clients": 40}
    keys = [key_of(DataSection(**{**base, **change})) for change in changes]  # type: ignore[arg-type]
    others = [key_of(seed=2), key_of(union=10), key_of(union=11)]
    assert len({*keys, *others}) == len(changes) + len(others)
    assert key_of() == key_of(DataSection(clients=40)) == keys[0]


def test_the_keys_of_settings_there_always_were_stay_the_same() -> None:
    assert key_of(DataSection(clients=20, partition="iid")) == "c4441c0ca83f39df"
    assert key_of(DataSection(clients=20)) == "6f5c1cf8a47a478c"


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (DataSection(partition="iid", alpha=0.1), DataSection(partition="iid")),
        (DataSection(classes_per_client=3), DataSection()),
        (DataSection(partition="classes", alpha=0.1), DataSection(partition="classes")),
        (DataSection(partition="ls", min_size=11), DataSection(partition="ls")),
        (DataSection(test="official", stratify=True), DataSection(test="official")),
        (DataSection(test="official", train_ratio=0.5), DataSection(test="official")),
        (DataSection(share_given=0.1, share_removed=True), DataSection()),
        (DataSection(partition="natural", alpha=0.1), DataSection(partition="natural")),
    ],
)
def test_the_key_does_not_depend_on_settings_that_change_nothing(
    one: DataSection, two: DataSection
) -> None:
    assert key_of(one) == key_of(two)


def test_a_stratified_shard_has_the_same_samples_and_every_class_in_both_parts(
    made: ShardSet, tmp_path: Path
) -> None:
    data = DataSection(clients=40, stratify=True)
    stratified, plain = (
        shards_of(tmp_path, data).ensure([7]).load(7),
        made.load(7),
    )
    counts = np.bincount(stratified.test.targets, minlength=10)
    both = plain.counts + np.bincount(plain.test.targets, minlength=10)
    assert (stratified.counts + counts).tolist() == both.tolist()
    assert np.abs(stratified.counts - 0.75 * both).max() <= 1
    assert ((stratified.counts > 0) == (both > 0)).all()


@pytest.mark.parametrize("client", [-1, 40, 1000])
def test_a_client_outside_of_the_partition_is_named(tmp_path: Path, client: int) -> None:
    with pytest.raises(DataError, match=rf"client id {client} has no data; expected 0 to 39"):
        shards_of(tmp_path).ensure([0, client])
    assert not list(tmp_path.iterdir())


def test_too_many_clients_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"data\.clients is 2000"):
        shards_of(tmp_path, DataSection(clients=2000)).ensure([0])
    assert not list(tmp_path.iterdir())


def test_a_missing_shard_is_named(made: ShardSet) -> None:
    with pytest.raises(DataError, match=r"client-40\.safetensors"):
        made.load(40)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_any_changed_byte_is_noticed(
    made: ShardSet, tmp_path: Path, data: st.DataObject
) -> None:
    content = bytearray((made.folder / "client-3.safetensors").read_bytes())
    header = 8 + int.from_bytes(content[:8], "little")
    place = data.draw(st.integers(0, header) | st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    (tmp_path / "client-3.safetensors").write_bytes(content)
    with pytest.raises(DataError, match=r"client-3\.safetensors"):
        read_shard(tmp_path / "client-3.safetensors")


@pytest.mark.parametrize("kept", [0, 4, 8, 100, 5000, -1])
def test_a_torn_shard_is_made_again(made: ShardSet, tmp_path: Path, kept: int) -> None:
    path = tmp_path / made.key / "client-3.safetensors"
    path.parent.mkdir()
    whole = (made.folder / path.name).read_bytes()
    path.write_bytes(whole[:kept])
    with pytest.raises(DataError, match=r"client-3\.safetensors"):
        read_shard(path)
    shards_of(tmp_path).ensure([3])
    assert path.read_bytes() == whole


def test_a_shard_in_the_place_of_another_is_noticed(made: ShardSet, tmp_path: Path) -> None:
    folder = tmp_path / made.key
    folder.mkdir()
    shutil.copy(made.folder / "client-3.safetensors", folder / "client-4.safetensors")
    with pytest.raises(DataError, match=rf"wrong place: it was written as {made.key}/client-3"):
        read_shard(folder / "client-4.safetensors")


def test_every_shard_knows_the_training_sizes_of_all_clients(made: ShardSet) -> None:
    shards = [made.load(client) for client in range(40)]
    sizes = [len(shard.train) for shard in shards]
    assert all(shard.sizes.tolist() == sizes for shard in shards)
    assert shards[0].sizes.dtype == np.int64
    assert shards[0].union is None


def test_the_union_is_the_same_for_all_and_drawn_from_their_test_sets(
    made: ShardSet, tmp_path: Path
) -> None:
    ours = shards_of(tmp_path, union=200).ensure([3, 4])
    unions = [ours.load(client).union for client in (3, 4)]
    assert unions[0] is not None
    assert unions[1] is not None
    assert np.array_equal(unions[0].inputs[0], unions[1].inputs[0])
    assert len(unions[0]) == len(unions[0].inputs[0]) == 200
    assert np.bincount(unions[0].targets).min() > 10
    tests = [made.load(client).test.inputs[0] for client in range(40)]
    theirs = {image.tobytes() for image in np.concatenate(tests)}
    assert {image.tobytes() for image in unions[0].inputs[0]} <= theirs
    plain = made.load(3)  # but for the union, it is the same shard
    assert np.array_equal(ours.load(3).train.inputs[0], plain.train.inputs[0])


def test_with_the_official_test_set_all_samples_to_train_are_of_the_official_part(
    tmp_path: Path,
) -> None:
    dataset = load_dataset("fmnist-mini")
    data = DataSection(clients=5, test="official")
    made = shards_of(tmp_path, data).ensure(range(5))
    shards = [made.load(client) for client in range(5)]
    for parts, expected in (
        ([shard.train for shard in shards], dataset.inputs[0][: dataset.official]),
        ([shard.test for shard in shards], dataset.inputs[0][dataset.official :]),
    ):
        images = [image.tobytes() for part in parts for image in part.inputs[0]]
        assert sorted(images) == sorted(image.tobytes() for image in expected)


def test_shared_samples_are_in_the_shards_their_counts_and_sizes(
    made: ShardSet, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = DataSection(clients=40, share=0.1)
    ours = shards_of(tmp_path, data).ensure([3])
    assert "750 samples leave their owners" in caplog.text
    assert not (ours.folder / "shared.safetensors").exists()
    shared = ours.ensure_shared()
    assert (ours.folder / "shared.safetensors").exists()
    assert np.bincount(shared.targets).tolist() == [75] * 10
    shard, before = ours.load(3), made.load(3)
    assert len(shard.train) == len(before.train) + 375 == shard.counts.sum() == shard.sizes[3]
    assert (shard.sizes - before.sizes).tolist() == [375] * 40
    given = {image.tobytes() for image in shard.train.inputs[0][-375:]}
    assert given <= {image.tobytes() for image in shared.inputs[0]}


def test_shared_samples_that_are_damaged_are_made_again(tmp_path: Path) -> None:
    ours = shards_of(tmp_path, DataSection(clients=40, share=0.1))
    samples, path = ours.ensure_shared(), ours.folder / "shared.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert np.array_equal(ours.ensure_shared().inputs[0], samples.inputs[0])
    assert path.read_bytes() == whole


def test_a_rebalanced_set_stands_beside_its_shard_and_is_made_from_that_alone(
    made: ShardSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / made.key
    folder.mkdir()
    shutil.copy(made.folder / "client-3.safetensors", folder)
    monkeypatch.setattr("common.data.shards.load_data", no_dataset)
    ours = shards_of(tmp_path, rebalance=Rebalance())
    for _ in range(2):
        ours.ensure([3])
    path = folder / "client-3.rebalanced-client-mean-five_step.safetensors"
    assert sorted(folder.iterdir()) == [path, folder / "client-3.safetensors"]
    shard, rebalanced = ours.load(3), ours.load_rebalanced(3)
    held = shard.counts[shard.counts > 0]
    target = int(held.mean() + 0.5)
    assert np.bincount(rebalanced.samples.targets, minlength=10).tolist() == [
        target * bool(count) for count in shard.counts
    ]
    assert rebalanced.effective == np.minimum(held, target).sum()
    assert len(rebalanced.samples.inputs[0]) == target * len(held)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    ours.ensure([3])
    assert path.read_bytes() == whole


def test_a_rebalanced_set_that_is_many_times_larger_is_warned_of(
    made: ShardSet, caplog: pytest.LogCaptureFixture
) -> None:
    rule = Rebalance(statistic="number", number=3000, augmentation="duplicate")
    ours = shards_of(made.root, rebalance=rule).ensure([3])
    assert "client 3: its rebalanced set has" in caplog.text
    assert ours.load_rebalanced(3).effective == len(made.load(3).train)


def test_loading_a_shard_reads_no_other_file(
    made: ShardSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / made.key
    folder.mkdir()
    shutil.copy(made.folder / "client-3.safetensors", folder)
    monkeypatch.setattr("common.data.shards.load_data", no_dataset)
    ours = shards_of(tmp_path)
    assert len(ours.ensure([3]).load(3).train) > 0
    assert ours.has([3])
    assert not ours.has([3, 4])


def no_dataset(_name: str) -> NoReturn:
    pytest.fail("the dataset is not needed here")


def test_shards_are_made_and_loaded_without_torch(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from common.config import Experiment; from common.data.shards import *\n"
        f"folder = Path({str(tmp_path)!r})\n"
        "ShardSet(folder, Experiment(), Rebalance()).ensure([0]).load(0)\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
