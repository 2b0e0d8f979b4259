from __future__ import annotations

import contextlib
import string
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.algorithms import BUILDERS, find_builder, options_of
from common.algorithms.base import Algorithm
from common.algorithms.fedavg import fedavg
from common.config import (
    AlgorithmSection,
    DataSection,
    EvaluationSection,
    Experiment,
    ExperimentSection,
    ModelSection,
    SelectionSection,
    TaskSection,
    TrainingSection,
)
from common.errors import ConfigError
from common.experiment.file import (
    apply_override,
    description,
    load_experiment,
    parse_experiment,
    write_text,
)
from common.tasks.task import resolved
from common.wire.messages import Stage

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEFAULT = parse_experiment({})


def load(folder: Path, text: str, *overrides: str) -> Experiment:
    path = folder / "trial.toml"
    path.write_text(text, encoding="utf-8")
    return load_experiment(path, overrides)


def test_an_empty_file_is_the_default_experiment_named_after_the_file(tmp_path: Path) -> None:
    experiment = load(tmp_path, "")
    assert experiment.experiment.name == "trial"
    assert experiment == msgspec.structs.replace(
        DEFAULT, experiment=ExperimentSection(name="trial")
    )


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("my run.toml", "my-run"),
        ("_x.toml", "x"),
        ("ä.toml", "experiment"),
        ("a.b.toml", "a.b"),
    ],
)
def test_a_file_with_an_odd_name_still_names_its_experiment(
    tmp_path: Path, file: str, name: str
) -> None:
    (tmp_path / file).write_text("")
    assert load_experiment(tmp_path / file).experiment.name == name


def test_what_stands_in_the_file_counts(tmp_path: Path) -> None:
    text = '[experiment]\nname = "x"\ngrace = "forever"\n[algorithm]\nweighting = "uniform"\n'
    experiment = load(tmp_path, text + "[training]\nlearning_rate = 1\n")
    assert experiment.experiment.name == "x"
    assert experiment.experiment.grace == "forever"
    assert experiment.algorithm.options == {"weighting": "uniform"}
    assert experiment.training.learning_rate == 1.0


SECTIONS = (
    "expected one of experiment, algorithm, model, data, task, training, selection, "
    "aggregation, privacy, evaluation, communication, central"
)

WRONG = [
    # unknown sections and keys
    ("[trainng]\n", ":1", "trainng is not a section; did you mean training?"),
    ("\n[zzz]\n", ":2", f"zzz is not a section; {SECTIONS}"),
    ("zzz = 1\n", ":1", f"zzz is not a section; {SECTIONS}"),
    (
        "[training]\n\nepoch = 1\n",
        ":3",
        "training.epoch is not a setting; did you mean training.epochs?",
    ),
    (
        "[evaluation]\nzzz = 1\n",
        ":2",
        "evaluation.zzz is not a setting; expected one of every, stages, union_samples, "
        "union_every, personal_stage, epsilon",
    ),
    (
        '[aggregation]\nrule = "median"\narithmetic = "exact"\n',
        ":3",
        "aggregation.arithmetic is 'exact', but aggregation.rule is 'median', which is no sum; "
        "expected 'mean'",
    ),
    (
        '[aggregation]\nrule = "krum"\nhostile = 5\n[data]\nclients = 12\n',
        ":2",
        "aggregation.rule is 'krum' with aggregation.hostile = 5, which needs at least 13 "
        "updates in a round; 12 clients train in one",
    ),
    (
        "[privacy]\nsecure = true\n",
        ":2",
        "privacy.secure is true, but aggregation.arithmetic is 'float', in which masks do not "
        "cancel; expected 'exact'",
    ),
    (
        '[privacy]\nsecure = true\n[aggregation]\narithmetic = "exact"\nclip_norm = 1.5\n',
        ":2",
        "privacy.secure is true, but aggregation.clip_norm is 1.5: the coordinator sees no "
        "single update to shorten; expected 0",
    ),
    (
        '[privacy]\nsecure = true\n[aggregation]\narithmetic = "exact"\nrule = "krum"\n',
        ":4",
        "aggregation.arithmetic is 'exact', but aggregation.rule is 'krum', which is no sum; "
        "expected 'mean'",
    ),
    (
        '[privacy]\nsecure = true\n[aggregation]\narithmetic = "exact"\n'
        '[algorithm]\nname = "fedfomo"\n',
        ":2",
        "privacy.secure is true, but the server of algorithm.name = 'fedfomo' looks at single "
        "updates, which secure aggregation hides; expected an algorithm that needs only their "
        "mean",
    ),
    (
        '[privacy]\nsecure = true\n[aggregation]\narithmetic = "exact"\n'
        '[selection]\nparticipants = "0-1"\n',
        ":2",
        "privacy.secure is true with 2 clients in a round; expected 3 to 1000",
    ),
    ("[privacy]\nthreshold = 0.5\n", ":2", "privacy.threshold is 0.5; expected float > 0.5"),
    ("training = 3\n", ":1", "training is 3; expected a section: [training]"),
    (
        "[[training]]\nepochs = 1\n",
        ":1",
        "training is [{'epochs': 1}]; expected a section: [training]",
    ),
    # types
    ("[training]\nepochs = 'x'\n", ":2", "training.epochs is 'x'; expected int, got str"),
    ("[training]\nepochs = 1.5\n", ":2", "training.epochs is 1.5; expected int, got float"),
    ("[experiment]\nseed = true\n", ":2", "experiment.seed is true; expected int, got bool"),
    ("[algorithm]\nname = 3\n", ":2", "algorithm.name is 3; expected str, got int"),
    (
        "[evaluation]\nstages = 'G'\n",
        ":2",
        "evaluation.stages is 'G'; expected a list, got str",
    ),
    ("[algorithm]\nname = ['a']\n", ":2", 'algorithm.name is ["a"]; expected str, got a list'),
    ("[evaluation]\nstages = [1]\n", ":2", "evaluation.stages is [1]; expected str, got int"),
    # ranges
    ("[training]\nepochs = 0\n", ":2", "training.epochs is 0; expected int >= 1"),
    ("[training]\nmomentum = 1.0\n", ":2", "training.momentum is 1.0; expected float < 1.0"),
    ("[data]\nalpha = 0\n", ":2", "data.alpha is 0; expected float > 0.0"),
    ("[selection]\nrate = 1.5\n", ":2", "selection.rate is 1.5; expected float <= 1.0"),
    ("[selection]\nstart_with = 0\n", ":2", "selection.start_with is 0; expected int >= 1"),
    (
        "[experiment]\ngrace = -1\n",
        ":2",
        'experiment.grace is negative; expected seconds or "forever"',
    ),
    (
        "[experiment]\ngrace = inf\n",
        ":2",
        "experiment.grace is inf; expected a finite number",
    ),
    (
        "[training]\nlearning_rate = nan\n",
        ":2",
        "training.learning_rate is nan; expected a finite number",
    ),
    (
        '[experiment]\nname = "a/b"\n',
        ":2",
        r"experiment.name is 'a/b'; expected letters A-Z and a-z, digits, '.', "
        "'_' or '-' (at most 64)",
    ),
    (
        '[experiment]\nname = "a\\n"\n',
        ":2",
        r"experiment.name is 'a\n'; expected letters A-Z and a-z, digits, '.', "
        "'_' or '-' (at most 64)",
    ),
    # choices
    (
        "[data]\npartition = 'idd'\n",
        ":2",
        "data.partition is 'idd'; expected 'iid' or 'classes' or 'dirichlet' or "
        "'dirichlet-client' or 'ls' or 'qs' or 'lsqs' or 'natural' or 'local'",
    ),
    (
        "[evaluation]\nstages = ['G', 'L3']\n",
        ":2",
        "evaluation.stages is [\"G\", \"L3\"]; expected 'G' or 'L1' or 'L2'",
    ),
    (
        "[experiment]\ngrace = 'soon'\n",
        ":2",
        "experiment.grace is 'soon'; expected a number or 'forever'",
    ),
    (
        "[selection]\nstart_with = 'some'\n",
        ":2",
        "selection.start_with is 'some'; expected 'all' or a number",
    ),
    ("[model]\nname = 'dn'\n", ":2", "model.name is 'dn'; did you mean 'dnn'?"),
    (
        "[data]\ndataset = 'fmnist-min'\n",
        ":2",
        "data.dataset is 'fmnist-min'; did you mean 'fmnist-mini'?",
    ),
    # algorithms
    (
        "[algorithm]\nname = 'fedavgg'\n",
        ":2",
        "algorithm.name is 'fedavgg', which is not known; did you mean 'fedavg'?",
    ),
    (
        "[algorithm]\nweigting = 'samples'\n",
        ":2",
        "algorithm.weigting is not a setting of fedavg; did you mean 'weighting'?",
    ),
    (
        "[algorithm]\nweighting = 'size'\n",
        ":2",
        "algorithm.weighting is 'size'; expected 'samples' or 'uniform'",
    ),
    (
        "[algorithm]\nweighting = [1]\n",
        ":2",
        "algorithm.weighting is [1]; expected a number or a string",
    ),
    # things that do not fit together
    (
        "[model]\nhead_depth = 9\n",
        ":2",
        "model.head_depth is 9; expected 1 to 3 for 'convnet'",
    ),
    (
        "[selection]\nparticipants = 'x'\n",
        ":2",
        "selection.participants: 'x' is not a list of client ids; "
        "expected such as 0,1,2 or 0-9",
    ),
    (
        "[selection]\nparticipants = '0-99'\n",
        ":2",
        "selection.participants names clients 12-99, but data.clients = 12 has only 0-11",
    ),
    (
        "[selection]\nstart_with = 13\n",
        ":2",
        "selection.start_with is 13, but only 12 clients take part",
    ),
    (
        "[experiment]\nmin_updates = 4\n[selection]\nparticipants = '1-3'\n",
        ":2",
        "experiment.min_updates is 4, but only 3 clients take part",
    ),
    (
        "[data]\nclients = 1001\n",
        ":2",
        "data.clients is 1001, but fmnist-mini has only 10000 samples; "
        "every client needs at least 10",
    ),
    (
        "[data]\nclients = 5001\npartition = 'iid'\n",
        ":2",
        "data.clients is 5001, but fmnist-mini has only 10000 samples; "
        "every client needs at least 2",
    ),
    (
        "[data]\nclasses_per_client = 11\npartition = 'classes'\n",
        ":2",
        "data.classes_per_client is 11, but fmnist-mini has only 10 classes",
    ),
    (
        "[data]\npartition = 'natural'\n",
        ":2",
        "data.partition is 'natural', but 'fmnist-mini' has no clients of its own; "
        "expected another partition, or the dataset 'shakespeare'",
    ),
    (
        "[data]\ndataset = 'shakespeare'\ntest = 'official'\n[model]\nname = 'char-lstm'\n",
        ":3",
        "data.test is 'official', but 'shakespeare' has no official test set; expected 'pool'",
    ),
    (
        "[data]\nmax_samples = 9\n",
        ":2",
        "data.max_samples is 9; expected 0 or at least 10, as every client needs as many",
    ),
    (
        "[data]\ndataset = 'shakespeare'\n[model]\nname = 'convnet'\n",
        ":4",
        "model.name is 'convnet'; expected 'char-lstm', as the dataset is text",
    ),
    (
        "[model]\nname = 'char-lstm'\n",
        ":2",
        "model.name is 'char-lstm'; expected 'cifar-cnn' or 'convnet' or 'dnn' or 'mcmahan' or "
        "'s2cnn' or 'small', as the dataset is images",
    ),
]


@pytest.mark.parametrize(("text", "line", "problem"), WRONG, ids=[w[2][:40] for w in WRONG])
def test_a_mistake_is_named_with_its_place_and_the_cure(
    tmp_path: Path, text: str, line: str, problem: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert str(caught.value) == f"{tmp_path}/trial.toml{line}: {problem}"


def test_a_missing_file_is_named_with_the_command_that_writes_one(tmp_path: Path) -> None:
    path = tmp_path / "none.toml"
    with pytest.raises(ConfigError) as caught:
        load_experiment(path)
    assert str(caught.value) == f"{path} does not exist; write one with 'fl-server init {path}'"


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot be read: Is a directory"):
        load_experiment(tmp_path)
    (tmp_path / "x.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"x\.toml cannot be read: it is not UTF-8"):
        load_experiment(tmp_path / "x.toml")


@pytest.mark.parametrize("text", ["= x", "[a", "a = ", "a = 1\na = 2", "{}"])
def test_what_is_not_toml_is_named_with_its_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"trial\.toml is not valid TOML: .*\(at "):
        load(tmp_path, text)


def test_an_override_wins_over_the_file_and_the_last_one_over_the_others(
    tmp_path: Path,
) -> None:
    experiment = load(
        tmp_path,
        "[training]\nepochs = 5\n",
        "training.epochs=2",
        "training.epochs = 3",
        "data.partition=iid",
        "experiment.name='quoted'",
        "selection.participants=0-3",
        'evaluation.stages=["G"]',
        "training.learning_rate=1e-3",
        "algorithm.weighting=uniform",
    )
    assert experiment.training.epochs == 3
    assert experiment.data.partition == "iid"
    assert experiment.experiment.name == "quoted"
    assert experiment.selection.participants == "0-3"
    assert experiment.evaluation.stages == ("G",)
    assert experiment.training.learning_rate == 0.001
    assert experiment.algorithm.options == {"weighting": "uniform"}


@pytest.mark.parametrize(
    "override",
    ["", "=", "epochs=3", "training.epochs", "training.=3", ".epochs=3", "training", "a=b.c"],
)
def test_what_is_not_an_override_is_refused(tmp_path: Path, override: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, "", override)
    assert str(caught.value) == f"--set {override!r}; expected section.key=value"


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ("training.epochs=x", "training.epochs is 'x'; expected int, got str"),
        ("training.epochs=", "training.epochs is ''; expected int, got str"),
        ("training.epoch=3", "training.epoch is not a setting; did you mean training.epochs?"),
        ("trainin.epochs=3", "trainin is not a section; did you mean training?"),
        ("model.name=dn", "model.name is 'dn'; did you mean 'dnn'?"),
    ],
)
def test_a_wrong_override_is_blamed_itself_and_not_the_file(
    tmp_path: Path, override: str, problem: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, "[training]\nepochs = 5\n", override)
    assert str(caught.value) == f"--set {override}: {problem}"


def test_an_override_into_what_is_no_section_is_refused() -> None:
    with pytest.raises(ConfigError, match="training is not a section"):
        apply_override({"training": 1}, "training.epochs=3")


BUILT: list[float] = []


def counted(*, step: float = 0.5) -> Algorithm:
    """FedAvg that takes note of every time it is built."""
    BUILT.append(step)
    return fedavg()


def test_reading_an_experiment_builds_its_algorithm_once(tmp_path: Path) -> None:
    BUILT.clear()
    path = tmp_path / "counted.toml"
    path.write_text(f'[algorithm]\nname = "{__name__}:counted"\n')
    assert load_experiment(path).algorithm.options == {"step": 0.5}
    assert BUILT == [0.5]


def test_every_key_has_a_description() -> None:
    for name, kind in get_type_hints(Experiment).items():
        assert kind.__doc__, name
        for key, hint in get_type_hints(kind, include_extras=True).items():
            if key != "options":
                assert len(description(hint)) > 10, f"{name}.{key} is not described"
    for name in BUILDERS:
        for key, (hint, _) in options_of(find_builder(name)).items():
            assert len(description(hint)) > 10, f"{key} of {name} is not described"


def test_the_written_text_has_every_key_with_its_description() -> None:
    text = write_text(Experiment())
    table = tomllib.loads(text)
    for name, kind in get_type_hints(Experiment).items():
        keys = set(get_type_hints(kind)) - {"options", "schema"}  # a table of its own
        assert keys <= set(table[name])
        for key, hint in get_type_hints(kind, include_extras=True).items():
            assert key == "schema" or description(hint).split(" ", 1)[0] in text
    assert table["algorithm"] == {"name": "fedavg", "weighting": "samples"}
    assert max(len(line) for line in text.splitlines()) <= 96


WEIGHTINGS = ["samples", "uniform"]
names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", fullmatch=True)
forever: st.SearchStrategy[Literal["forever"]] = st.just("forever")
everybody: st.SearchStrategy[Literal["all"]] = st.just("all")
stage: st.SearchStrategy[Stage] = st.sampled_from(("G", "L1", "L2"))
stages = st.lists(stage, max_size=3, unique=True).map(tuple)


def positive(*, below: float = 1e300) -> st.SearchStrategy[float]:
    return st.floats(0, below, exclude_min=True, exclude_max=True)


@st.composite
def experiments(draw: st.DrawFn) -> Experiment:
    clients = draw(st.integers(1, 500))
    taking_part = draw(st.just("all") | st.just(f"0-{clients - 1}"))
    return Experiment(
        experiment=ExperimentSection(
            name=draw(names),
            seed=draw(st.integers(0, 2**80)),
            rounds=draw(st.integers(1, 10**6)),
            grace=draw(forever | st.floats(0, 1e300)),
            deadline=draw(st.floats(0, 1e300)),
            min_updates=draw(st.integers(1, clients)),
        ),
        algorithm=AlgorithmSection(
            name=draw(st.sampled_from(["fedavg", "common.algorithms.fedavg:fedavg"])),
            options=draw(st.fixed_dictionaries({"weighting": st.sampled_from(WEIGHTINGS)})),
        ),
        model=ModelSection(name="convnet", head_depth=draw(st.integers(1, 3))),
        data=DataSection(
            dataset=draw(st.sampled_from(["fmnist-mini", "fashion-mnist"])),
            clients=clients,
            partition=draw(st.sampled_from(["iid", "classes", "dirichlet", "ls", "qs"])),
            alpha=draw(positive()),
            classes_per_client=draw(st.integers(1, 10)),
            min_size=draw(st.integers(2, 20)),
            train_ratio=draw(positive(below=1)),
            stratify=draw(st.booleans()),
        ),
        task=resolved(TaskSection(), "classification"),
        training=TrainingSection(
            epochs=draw(st.integers(1, 10**6)),
            batch_size=draw(st.integers(1, 10**6)),
            learning_rate=draw(positive()),
            momentum=draw(st.floats(0, 1, exclude_max=True)),
            weight_decay=draw(st.floats(0, 1e300)),
        ),
        selection=SelectionSection(
            rate=draw(st.floats(0, 1, exclude_min=True)),
            gamma=draw(st.floats(0, 1e300)),
            participants=taking_part,
            start_with=draw(everybody | st.integers(1, clients)),
        ),
        evaluation=EvaluationSection(every=draw(st.integers(1, 100)), stages=draw(stages)),
    )


@given(experiments())
def test_any_experiment_is_the_same_after_writing_and_reading(experiment: Experiment) -> None:
    assert parse_experiment(tomllib.loads(write_text(experiment))) == experiment


@given(experiments())
def test_any_experiment_survives_the_way_to_the_boards(experiment: Experiment) -> None:
    data = msgspec.json.encode(experiment)
    assert msgspec.json.decode(data, type=Experiment) == experiment


ECHO = """
from dataclasses import replace
from common.algorithms.base import Algorithm
from common.algorithms.fedavg import fedavg
def echo(*, word: str = "", number: float = 0.5, whole: int = 1, yes: bool = True) -> Algorithm:
    return replace(fedavg(), name=word)
"""


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("algorithms")
    (folder / "echo_algorithm.py").write_text(ECHO)
    sys.path.insert(0, str(folder))
    yield "echo_algorithm:echo"
    sys.path.remove(str(folder))


options = st.fixed_dictionaries(
    {
        "word": st.text(st.characters(codec="utf-8")),
        "number": st.floats(allow_nan=False, allow_infinity=False),
        "whole": st.integers(-(2**63), 2**63 - 1),
        "yes": st.booleans(),
    }
)


@given(options)
def test_any_option_of_somebody_elses_algorithm_is_the_same_after_writing_and_reading(
    echo: str, options: Mapping[str, str | float | bool]
) -> None:
    experiment = msgspec.structs.replace(
        DEFAULT, algorithm=AlgorithmSection(name=echo, options=dict(options))
    )
    assert parse_experiment(tomllib.loads(write_text(experiment))) == experiment


@given(st.dictionaries(st.text(string.printable, max_size=9), st.integers() | st.text()))
def test_any_table_is_an_experiment_or_refused(table: dict[str, int | str]) -> None:
    for section in ("training", "algorithm", "data"):
        with contextlib.suppress(ConfigError):
            parse_experiment({section: table})
