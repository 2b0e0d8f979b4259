from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from common.config import DataSection
from common.datasets import load_dataset
from common.errors import ConfigError, DataError
from common.shards import ensure_shards, load_shard, shard_key

DATA = DataSection(clients=40)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ensure_shards(tmp_path_factory.mktemp("shards"), DATA, 1, range(40))


def test_the_shards_together_are_the_whole_dataset(made: Path) -> None:
    dataset = load_dataset("fmnist-mini")
    shards = [load_shard(made, client) for client in range(40)]
    parts = [part for shard in shards for part in (shard.train, shard.test)]
    images = np.concatenate([part.images for part in parts])
    labels = np.concatenate([part.labels for part in parts])
    # no two clients hold the same image, so sorting by content lines both pools up
    ours = np.lexsort(images.reshape(10_000, -1)[:, ::16].T)
    theirs = np.lexsort(dataset.images.reshape(10_000, -1)[:, ::16].T)
    assert np.array_equal(labels[ours], dataset.labels[theirs])
    assert np.array_equal(images[ours].sum((1, 2, 3)), dataset.images[theirs].sum((1, 2, 3)))


def test_a_shard_counts_the_classes_of_its_training_samples(made: Path) -> None:
    shard = load_shard(made, 7)
    assert shard.counts.tolist() == np.bincount(shard.train.labels, minlength=10).tolist()
    assert shard.counts.sum() == len(shard.train)
    assert len(shard.train) == round(0.75 * (len(shard.train) + len(shard.test)))
    assert [shard.train.images.dtype.name, shard.train.labels.dtype.name] == ["uint8", "int64"]
    assert shard.train.images.shape[1:] == (1, 28, 28)


def test_a_shard_is_the_same_whoever_makes_it(made: Path, tmp_path: Path) -> None:
    alone = ensure_shards(tmp_path, DATA, 1, [7])
    assert alone.name == made.name
    assert [path.name for path in alone.iterdir()] == ["client-7.safetensors"]
    name = "client-7.safetensors"
    assert (alone / name).read_bytes() == (made / name).read_bytes()


def test_shards_that_are_there_are_not_made_again(tmp_path: Path) -> None:
    folder = ensure_shards(tmp_path, DATA, 1, [0, 1])
    before = {path.name: path.stat().st_ino for path in folder.iterdir()}
    ensure_shards(tmp_path, DATA, 1, [1, 0, 2])
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
    ]
    base: dict[str, object] = {"clients": 40}
    keys = [shard_key(DataSection(**{**base, **change}), 1) for change in changes]  # type: ignore[arg-type]
    assert len({*keys, shard_key(DATA, 2)}) == len(changes) + 1
    assert shard_key(DATA, 1) == shard_key(DataSection(clients=40), 1) == keys[0]


def test_the_keys_of_settings_there_always_were_stay_the_same() -> None:
    assert shard_key(DataSection(clients=20, partition="iid"), 1) == "8656b339c45b8996"
    assert shard_key(DataSection(clients=20), 1) == "b281ca9b84069bde"


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (DataSection(partition="iid", alpha=0.1), DataSection(partition="iid")),
        (DataSection(classes_per_client=3), DataSection()),
        (DataSection(partition="classes", alpha=0.1), DataSection(partition="classes")),
        (DataSection(partition="ls", min_size=11), DataSection(partition="ls")),
    ],
)
def test_the_key_does_not_depend_on_settings_of_other_partitions(
    one: DataSection, two: DataSection
) -> None:
    assert shard_key(one, 1) == shard_key(two, 1)


def test_a_stratified_shard_has_the_same_samples_and_every_class_in_both_parts(
    made: Path, tmp_path: Path
) -> None:
    data = DataSection(clients=40, stratify=True)
    stratified, plain = (
        load_shard(ensure_shards(tmp_path, data, 1, [7]), 7),
        load_shard(made, 7),
    )
    counts = np.bincount(stratified.test.labels, minlength=10)
    both = plain.counts + np.bincount(plain.test.labels, minlength=10)
    assert (stratified.counts + counts).tolist() == both.tolist()
    assert np.abs(stratified.counts - 0.75 * both).max() <= 1
    assert ((stratified.counts > 0) == (both > 0)).all()


@pytest.mark.parametrize("client", [-1, 40, 1000])
def test_a_client_outside_of_the_partition_is_named(tmp_path: Path, client: int) -> None:
    with pytest.raises(DataError, match=rf"client id {client} has no data; expected 0 to 39"):
        ensure_shards(tmp_path, DATA, 1, [0, client])
    assert not list(tmp_path.iterdir())


def test_too_many_clients_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"data\.clients is 2000"):
        ensure_shards(tmp_path, DataSection(clients=2000), 1, [0])
    assert not list(tmp_path.iterdir())


def test_a_missing_shard_is_named(made: Path) -> None:
    with pytest.raises(DataError, match=r"client-40\.safetensors"):
        load_shard(made, 40)


@settings(
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_any_changed_byte_is_noticed(made: Path, tmp_path: Path, data: st.DataObject) -> None:
    content = bytearray((made / "client-3.safetensors").read_bytes())
    header = 8 + int.from_bytes(content[:8], "little")
    place = data.draw(st.integers(0, header) | st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    (tmp_path / "client-3.safetensors").write_bytes(content)
    with pytest.raises(DataError, match=r"client-3\.safetensors"):
        load_shard(tmp_path, 3)


@pytest.mark.parametrize("kept", [0, 4, 8, 100, 5000, -1])
def test_a_torn_shard_is_made_again(made: Path, tmp_path: Path, kept: int) -> None:
    path = tmp_path / made.name / "client-3.safetensors"
    path.parent.mkdir()
    whole = (made / path.name).read_bytes()
    path.write_bytes(whole[:kept])
    with pytest.raises(DataError, match=r"client-3\.safetensors"):
        load_shard(path.parent, 3)
    ensure_shards(tmp_path, DATA, 1, [3])
    assert path.read_bytes() == whole


def test_shards_are_made_and_loaded_without_torch(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from common.config import DataSection; from common.shards import *\n"
        f"load_shard(ensure_shards(Path({str(tmp_path)!r}), DataSection(), 1, [0]), 0)\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
