"""Datasets of users' own: what is read, what it becomes, and what is refused how."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest

from common.arrays import Array
from common.config import ColumnSchema, Experiment, InputSchema
from common.data.dataset import info_of, load_data
from common.data.own.statistics import deviation_of, moments_of, pooled
from common.data.shards import ShardSet
from common.errors import ConfigError, DataError
from common.experiment.file import load_experiment, write_text

READINGS = ["a,b,site,y", *(f"{at}.5,{at % 7},{'nsw'[at % 3]},{at / 10}" for at in range(60))]


def experiment(folder: Path, dataset: str, *settings: str, model: str = "dnn") -> Experiment:
    file = folder / "my.toml"
    lines = [f'dataset = "{dataset}"', "clients = 3", 'partition = "iid"', *settings]
    text = "\n".join(["[data]", *lines, "[model]", f'name = "{model}"'])
    file.write_text(text, encoding="utf-8")
    return load_experiment(file)


def table(folder: Path, lines: list[str] = READINGS, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_table_becomes_standardised_numbers_and_one_number_per_category(
    tmp_path: Path,
) -> None:
    table(tmp_path)
    found = experiment(tmp_path, "csv:t.csv", 'target = "y"')
    schema = found.data.schema
    assert schema is not None
    assert schema.kind == "regression"
    assert schema.columns == (
        ColumnSchema(name="a"),
        ColumnSchema(name="b"),
        ColumnSchema(name="site", categories=("n", "s", "w")),
    )
    assert (schema.train, schema.test, info_of(found.data).shape) == (60, 0, (5,))
    dataset = load_data(found.data)
    (inputs,) = dataset.inputs
    assert isinstance(inputs, np.ndarray)
    assert inputs.dtype == np.float32
    assert inputs[4, 2:].tolist() == [0.0, 1.0, 0.0]
    assert dataset.targets[:3].tolist() == pytest.approx([0.0, 0.1, 0.2])
    shards = ShardSet(tmp_path / "shards", found).ensure(range(3))
    numbers = np.concatenate([shards.load(client).train.inputs[0] for client in range(3)])
    assert numbers[:, :2].mean(0) == pytest.approx([0, 0], abs=1e-6)
    assert numbers[:, :2].std(0) == pytest.approx([1, 1], abs=1e-6)


def test_the_run_knows_its_data_without_reading_it_again(tmp_path: Path) -> None:
    path = table(tmp_path)
    found = experiment(tmp_path, "csv:t.csv", 'target = "y"')
    (tmp_path / "run").mkdir()
    copy = tmp_path / "run" / "experiment.toml"
    copy.write_text(write_text(found), encoding="utf-8")
    path.unlink()
    assert load_experiment(copy) == found
    assert msgspec.json.decode(msgspec.json.encode(found), type=Experiment) == found


def test_the_key_of_shards_depends_on_the_content_and_not_on_the_path(tmp_path: Path) -> None:
    table(tmp_path)
    table(tmp_path, name="other.csv")
    table(tmp_path, [*READINGS[:-1], "1,1,n,1"], name="changed.csv")
    keys = [
        ShardSet(tmp_path, experiment(tmp_path, f"csv:{name}.csv", 'target = "y"')).key
        for name in ("t", "other", "changed")
    ]
    assert keys[0] == keys[1] != keys[2]


def test_classes_of_a_table_are_its_texts_or_few_whole_numbers(tmp_path: Path) -> None:
    rows = [f"{at},{('cat', 'dog')[at % 2]},{10 * (at % 3)}" for at in range(30)]
    table(tmp_path, ["x;kind;size".replace(";", ","), *rows])
    by_text = experiment(tmp_path, "csv:t.csv", 'target = "kind"', 'features = ["x"]').data
    by_number = experiment(tmp_path, "csv:t.csv", 'target = "size"', 'features = ["x"]').data
    assert by_text.schema is not None
    assert by_number.schema is not None
    assert (by_text.schema.kind, by_text.schema.names) == ("classification", ("cat", "dog"))
    assert by_number.schema.names == ("0", "10", "20")
    assert load_data(by_number).targets[:4].tolist() == [0, 1, 2, 0]


def test_an_npz_file_has_several_inputs_and_a_test_part(tmp_path: Path) -> None:
    arrays: dict[str, Array] = {
        "image": np.zeros((20, 1, 4, 4), np.uint8),
        "age": np.ones((20, 1), np.float64),
        "target": np.arange(20, dtype=np.int32) % 4,
    }
    tests = {f"test_{name}": array[:8] for name, array in arrays.items()}
    np.savez(tmp_path / "d.npz", **arrays, **tests)  # type: ignore[arg-type]  # numpy's types take options too
    table(tmp_path, ["import torch"], name="nets.py")
    with pytest.raises(ConfigError, match="a model of your own, as the dataset is several"):
        experiment(tmp_path, "npz:d.npz")
    one = experiment(tmp_path, "npz:d.npz", 'features = ["image"]', 'test = "official"')
    assert info_of(one.data).inputs == (
        InputSchema(name="image", dtype="uint8", shape=(1, 4, 4)),
    )
    shard = ShardSet(tmp_path / "shards", one).ensure([0]).load(0)
    assert (len(shard.train), len(shard.test), shard.counts.sum()) == (7, 3, 7)


def test_a_folder_of_images_has_a_class_for_each_sub_folder(tmp_path: Path) -> None:
    from PIL import Image

    for at in range(12):
        for name, colour in (("red", (250, 0, 0)), ("blue", (0, 0, 250))):
            path = tmp_path / "pictures" / name / f"{at}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (20 + at, 16), colour).save(path)
    with pytest.raises(ConfigError, match="expected equal sizes"):
        experiment(tmp_path, "folder:pictures", model="small")
    found = experiment(tmp_path, "folder:pictures", "image_size = 16", model="small")
    dataset = load_data(found.data)
    assert found.data.schema is not None
    assert found.data.schema.names == ("blue", "red")
    (images,) = dataset.inputs
    assert isinstance(images, np.ndarray)
    assert images.shape == (24, 3, 16, 16)
    assert images[0, :, 0, 0].tolist() == [0, 0, 250]
    assert dataset.targets.tolist() == [0] * 12 + [1] * 12


LOADER = """
import numpy as np

def load(folder):
    at = np.arange(40)
    return {"x": np.stack([at, at ** 2], 1) / 9, "target": at % 2, "groups": at // 8}
"""


def test_a_function_returns_named_arrays_and_may_name_natural_clients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "loader_of_arrays.py").write_text(LOADER, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = experiment(tmp_path, "loader_of_arrays:load", "min_size = 4")
    natural = msgspec.structs.replace(
        found, data=msgspec.structs.replace(found.data, partition="natural")
    )
    shard = ShardSet(tmp_path / "shards", natural).ensure([1]).load(1)
    assert len(shard.train) + len(shard.test) == 8
    assert info_of(found.data).kind == "classification"


@pytest.mark.parametrize(
    "partition", ["dirichlet", "dirichlet-client", "ls", "qs", "lsqs", "classes"]
)
def test_numbers_are_divided_by_bins_where_classes_would_be(
    tmp_path: Path, partition: str
) -> None:
    table(tmp_path)
    settings = [
        f'partition = "{partition}"',
        "bins = 4",
        "min_size = 4",
        "classes_per_client = 3",
    ]
    file = tmp_path / "my.toml"
    text = ["[data]", 'dataset = "csv:t.csv"', 'target = "y"', "clients = 3", *settings]
    file.write_text("\n".join([*text, "[model]", 'name = "dnn"']), encoding="utf-8")
    found = load_experiment(file)
    shards = ShardSet(tmp_path / "shards", found).ensure(range(3))
    sizes = [len(shards.load(client).train) for client in range(3)]
    assert sum(sizes) >= 30
    assert shards.load(0).counts.tolist() == [sizes[0]]


def test_moments_of_parts_are_those_of_the_whole_also_far_from_zero() -> None:
    rng = np.random.default_rng(5)
    values = rng.normal([1e9, -3, 0], [1, 1e-3, 0], (500, 3))
    parts = [moments_of(values[:7]), moments_of(values[7:300]), moments_of(values[300:])]
    together = pooled(parts)
    assert together == pooled(parts[::-1])
    assert together.count == 500
    assert together.mean == pytest.approx(values.mean(0))
    assert deviation_of(together) == pytest.approx([*values.std(0)[:2], 1.0], rel=1e-6)


def test_a_board_whose_file_has_other_content_says_so(tmp_path: Path) -> None:
    table(tmp_path)
    found = experiment(tmp_path, "csv:t.csv", 'target = "y"')
    table(tmp_path, [*READINGS, "9,9,n,9"])
    with pytest.raises(
        DataError, match="has other content than when the experiment was loaded"
    ):
        ShardSet(tmp_path / "shards", found).ensure([0])


def test_data_below_fedbed_data_is_found_on_a_board(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = table(tmp_path)
    found = experiment(tmp_path, "csv:t.csv", 'target = "y"')
    (tmp_path / "board").mkdir()
    path.rename(tmp_path / "board" / "t.csv")
    with pytest.raises(DataError, match="which is not there"):
        load_data(found.data)
    monkeypatch.setenv("FEDBED_DATA", str(tmp_path / "board"))
    assert len(load_data(found.data).targets) == 60


def test_parquet_without_pyarrow_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match="not installed: pip install pyarrow"):
        experiment(tmp_path, "parquet:t.parquet")


def test_a_parquet_file_is_a_table(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {"x": [float(at) for at in range(30)], "site": ["n", "s"] * 15}
    table = arrow.table({**columns, "target": [at % 3 for at in range(30)]})
    parquet.write_table(table, tmp_path / "t.parquet")
    schema = experiment(tmp_path, "parquet:t.parquet").data.schema
    assert schema is not None
    assert schema.names == ("0", "1", "2")
    assert schema.columns[1].categories == ("n", "s")
