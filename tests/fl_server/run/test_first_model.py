from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from click.testing import CliRunner

from common.config import (
    CentralSection,
    DataSection,
    Experiment,
    ModelSection,
    TrainingSection,
)
from common.errors import ConfigError, StoreError
from common.experiment.file import parse_experiment
from common.experiment.resolve import first_model
from fl_server.central.baseline import Central, EpochLine
from fl_server.central.learner import rate_of
from fl_server.cli import main
from fl_server.run.aggregator import Aggregator
from fl_server.run.journal import read_records
from fl_server.run.model.first import check_start, starting_model
from fl_server.run.store import create_run

SMALL = Experiment(
    model=ModelSection(name="dnn", hidden=4),
    data=DataSection(clients=4),
    training=TrainingSection(epochs=1, batch_size=100),
    central=CentralSection(epochs=3, validation=0.1),
)


def with_model(**settings: object) -> Experiment:
    section = ModelSection(**{"name": "dnn", "hidden": 4, **settings})  # type: ignore[arg-type]
    return Experiment(model=section, data=SMALL.data, training=SMALL.training)


def test_a_warm_start_takes_what_fits_and_says_what_it_drew(tmp_path: Path) -> None:
    trained = {name: array + 1 for name, array in first_model(SMALL).items()}
    trained["head.1.0.weight"] = np.zeros((3, 4), np.float32)  # of another number of classes
    file = tmp_path / "model.safetensors"
    file.write_bytes(safetensors.numpy.save(trained))
    experiment = with_model(init_weights=str(file))
    check_start(experiment)
    start = starting_model(experiment, tmp_path)
    fresh = first_model(experiment)
    assert np.array_equal(start.model["head.1.0.bias"], fresh["head.1.0.bias"] + 1)
    assert np.array_equal(start.model["head.1.0.weight"], fresh["head.1.0.weight"])
    assert start.notes[0].endswith("; drew head.1.0.weight (there (3, 4))")


@pytest.mark.parametrize(("there", "here"), [(1, 2), (2, 1), (3, 1), (1, 3)])
def test_a_warm_start_finds_every_layer_whatever_the_depth_of_the_head(
    tmp_path: Path, there: int, here: int
) -> None:
    source = first_model(with_model(name="small", head_depth=there))
    file = tmp_path / "model.safetensors"
    file.write_bytes(safetensors.numpy.save({name: a + 1 for name, a in source.items()}))
    experiment = with_model(name="small", head_depth=here, init_weights=str(file))
    start = starting_model(experiment, tmp_path)
    fresh = first_model(experiment)
    assert [*start.model] == [*fresh]
    for name, array in fresh.items():
        assert np.array_equal(start.model[name], array + 1), name
    assert "drew" not in start.notes[0]
    assert ".3.0.weight (there " in start.notes[0]


def test_weights_that_cannot_be_used_are_refused_before_a_run_begins(tmp_path: Path) -> None:
    missing = with_model(init_weights=str(tmp_path / "none.safetensors"))
    with pytest.raises(ConfigError, match=r"none\.safetensors.*cannot be read.*expected"):
        check_start(missing)
    file = tmp_path / "other.safetensors"
    file.write_bytes(safetensors.numpy.save({"other": np.zeros(1, np.float32)}))
    with pytest.raises(ConfigError, match=r"of which no array fits; it has other \(1,\)"):
        check_start(with_model(init_weights=str(file)))
    file.write_bytes(file.read_bytes()[:-2])
    with pytest.raises(ConfigError, match=r"other\.safetensors.*cannot be read"):
        check_start(with_model(init_weights=str(file)))
    wild = {name: array * np.nan for name, array in first_model(SMALL).items()}
    file.write_bytes(safetensors.numpy.save(wild))
    with pytest.raises(ConfigError, match="with values not finite"):
        check_start(with_model(init_weights=str(file)))
    with pytest.raises(ConfigError, match=r"set data\.share"):
        check_start(with_model(warm_up=1))


@pytest.mark.slow
def test_a_warm_up_on_shared_samples_gives_a_better_start_and_says_so(tmp_path: Path) -> None:
    experiment = Experiment(
        model=ModelSection(name="dnn", hidden=4, warm_up=2),
        data=DataSection(clients=4, share=0.1),
        training=SMALL.training,
    )
    store = create_run(tmp_path, "warm", experiment)
    aggregator = Aggregator(store, experiment)
    assert any("raw data of clients" in note for note in aggregator.notes)
    assert any("2 epochs on" in note for note in aggregator.notes)
    aggregator.close()
    again = Aggregator(
        store, experiment
    )  # resumed: from the checkpoint, without another warm-up
    assert again.notes == ()
    again.close()


def test_a_central_training_that_was_stopped_ends_with_the_same_bits(tmp_path: Path) -> None:
    shards = tmp_path / ".shards"
    whole = Central(tmp_path / "whole", SMALL).run(shards, lambda line: None)

    def stop(line: EpochLine) -> None:
        if line.epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Central(tmp_path / "cut", SMALL).run(shards, stop)
    assert Central(tmp_path / "cut", SMALL).run(shards, lambda line: None) == whole
    lines = read_records(tmp_path / "cut" / "metrics.jsonl")
    assert [line["epoch"] for line in lines] == [1, 2, 3]
    assert {"accuracy", "validation", "train_loss", "loss"} <= lines[0].keys()
    with pytest.raises(StoreError, match="another experiment"):
        Central(tmp_path / "cut", with_model(hidden=5))


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [
        ("constant", [1.0, 1.0, 1.0, 1.0]),
        ("cosine", [1.0, 0.854, 0.5, 0.146]),
        ("linear", [1.0, 0.75, 0.5, 0.25]),
        ("step", [1.0, 1.0, 0.1, 0.01]),
        ("exponential", [1.0, 0.316, 0.1, 0.032]),
    ],
)
def test_the_rate_of_a_central_training_follows_its_schedule(
    schedule: str, rates: list[float]
) -> None:
    table = {"central": {"epochs": 4, "schedule": schedule}, "training": {"learning_rate": 1.0}}
    experiment = parse_experiment({**table, "model": {"name": "dnn"}})
    assert [round(rate_of(experiment, epoch), 3) for epoch in range(1, 5)] == rates


def test_a_central_sweep_does_one_training_after_another(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    text = '[model]\nname = "dnn"\n[data]\nclients = 4\n[central]\nepochs = 1\n[sweep]\n'
    file.write_text(text + '"central.schedule" = ["cosine", "step"]\n')
    runs = tmp_path / "runs"
    done = CliRunner().invoke(main, ["central", str(file), "--runs", str(runs)])
    assert done.exit_code == 0, done.output
    for name in ("c-schedule_cosine-s1-central", "c-schedule_step-s1-central"):
        assert (runs / name / "model.safetensors").exists()
    named = CliRunner().invoke(main, ["central", str(file), "--run", "x"])
    assert "have names of their own" in named.output + named.stderr


def test_all_algorithms_are_listed_and_one_is_explained() -> None:
    everything = CliRunner().invoke(main, ["algorithms"]).output
    assert "fedreg" in everything
    assert "fedreb" in everything
    one = CliRunner().invoke(main, ["algorithms", "fedprox"])
    assert "mu = 0.001" in one.output
    assert "pulled to the global model" in one.output
    wrong = CliRunner().invoke(main, ["algorithms", "fedrpox"])
    assert wrong.exit_code != 0
    assert "did you mean 'fedprox'" in wrong.output + wrong.stderr
