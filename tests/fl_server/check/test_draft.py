from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from PIL import Image

from common.config import Experiment
from common.experiment.file import load_experiment
from fl_server.cli import main

RNG = np.random.default_rng(1)


def init(tmp_path: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["init", str(tmp_path / "x.toml"), *words])


def written(tmp_path: Path, *words: str) -> Experiment:
    """The experiment that is written, if it can be loaded."""
    done = init(tmp_path, *words)
    assert done.exit_code == 0, done.stderr
    return load_experiment(tmp_path / "x.toml")


def write_table(path: Path, rows: int = 60) -> Path:
    lines = [f"{RNG.random():.3f},{'ab'[at % 2]},{RNG.random():.4f}" for at in range(rows)]
    path.write_text("\n".join(["heat,place,kw", *lines]) + "\n")
    return path


def write_pictures(folder: Path, sizes: tuple[int, ...]) -> Path:
    for name in ("cat", "dog"):
        (folder / name).mkdir(parents=True)
        for at in range(30):
            side = sizes[at % len(sizes)]
            pixels = RNG.integers(0, 256, (side, side, 3), np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{at}.png")
    return folder


def test_a_table_becomes_an_experiment(tmp_path: Path) -> None:
    table = write_table(tmp_path / "power.csv")
    experiment = written(tmp_path, "--dataset", f"csv:{table}", "--target", "kw")
    assert experiment.data.dataset == "csv:power.csv"  # seen from the experiment's folder
    assert (experiment.model.name, experiment.data.partition) == ("dnn", "iid")
    assert experiment.data.clients == 2  # 60 samples


def test_columns_and_clients_can_be_chosen_and_numbers_are_learned_by_adam(
    tmp_path: Path,
) -> None:
    table = write_table(tmp_path / "power.csv")
    words = ("--dataset", f"csv:{table}", "--target", "kw", "--features", "heat")
    experiment = written(tmp_path, *words, "--clients", "3")
    assert experiment.data.features == ("heat",)
    assert experiment.data.clients == 3
    assert experiment.training.optimizer == "adam"


@pytest.mark.parametrize(("size", "rate"), [(0.01, 0.001), (1, 0.005), (400, 0.1), (3e5, 3)])
def test_the_learning_rate_fits_the_size_of_the_targets(
    tmp_path: Path, size: float, rate: float
) -> None:
    lines = [f"{at},{size * (at % 30 + 0.5) / 17.3}" for at in range(70)]
    (tmp_path / "t.csv").write_text("\n".join(["a,y", *lines]) + "\n")
    made = written(tmp_path, "--dataset", f"csv:{tmp_path}/t.csv", "--target", "y")
    assert made.training.learning_rate == rate


def test_a_column_of_ids_is_noticed(tmp_path: Path) -> None:
    lines = [f"id-{at},{at % 5},{at / 7:.3f}" for at in range(60)]
    (tmp_path / "t.csv").write_text("\n".join(["who,a,y", *lines]) + "\n")
    done = init(tmp_path, "--dataset", f"csv:{tmp_path}/t.csv", "--target", "y")
    sentence = "column 'who' has 60 different texts in 60 rows, as ids and dates have"
    assert (
        f"found 60 samples of 2 columns (61 numbers), regression\nnote: {sentence}"
        in done.stdout
    )
    checked = CliRunner().invoke(main, ["check", str(tmp_path / "x.toml")])
    assert f"note        {sentence}" in checked.stdout


@pytest.mark.parametrize(("sizes", "wanted"), [((40,), 0), ((40, 50), 64)])
def test_a_folder_of_images_becomes_an_experiment(
    tmp_path: Path, sizes: tuple[int, ...], wanted: int
) -> None:
    folder = write_pictures(tmp_path / "pictures", sizes)
    experiment = written(tmp_path, "--dataset", f"folder:{folder}")
    assert experiment.data.image_size == wanted
    assert (experiment.model.name, experiment.data.partition) == ("convnet", "dirichlet")
    assert "60 samples of 3x" in (tmp_path / "x.toml").read_text()


def test_arrays_and_functions_become_experiments(tmp_path: Path) -> None:
    waves, labels = RNG.random((80, 5, 6), np.float32), np.arange(80) % 3
    np.savez(tmp_path / "waves.npz", wave=waves, target=labels)
    assert written(tmp_path, "--dataset", f"npz:{tmp_path}/waves.npz").model.name == "dnn"
    (tmp_path / "x.toml").unlink()
    (tmp_path / "mine.py").write_text(
        "import numpy as np\ndef load(folder):\n    return {**np.load(folder / 'waves.npz')}\n"
    )
    assert written(tmp_path, "--dataset", "mine.py:load").data.dataset == "mine.py:load"


def test_of_local_data_the_schema_is_written(tmp_path: Path) -> None:
    table = write_table(tmp_path / "power.csv")
    words = ("--dataset", f"csv:{table}", "--target", "kw", "--local")
    schema = written(tmp_path, *words).data.schema
    assert schema is not None
    assert [column.name for column in schema.columns] == ["heat", "place"]
    assert (schema.digest, schema.train, schema.mean) == ("", 0, ())
    assert (
        "add the classes and categories that only other boards"
        in (tmp_path / "x.toml").read_text()
    )


def test_several_inputs_need_a_model_and_that_is_said(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "two.npz", a=RNG.random((40, 3)), b=RNG.random(40), target=np.arange(40) % 2
    )
    done = init(tmp_path, "--dataset", f"npz:{tmp_path}/two.npz")
    assert "first write the model my_model.py:network: docs/own.md" in done.stdout


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--dataset", "mnist"), "--dataset is 'mnist'; expected csv:FILE"),
        (("--dataset", "csv:none.csv"), "which is not there"),
        (("--dataset", "csv:power.csv", "--target", "kwh"), "kwh"),
        (("--target", "kw"), "--clients and --local are about a --dataset"),
    ],
)
def test_what_cannot_be_looked_at_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path / "power.csv")
    done = init(tmp_path, *words)
    assert done.exit_code in (1, 2)
    assert problem in done.stderr
    assert not (tmp_path / "x.toml").exists()
