"""An experiment's own dataset: its schema is made from the data, or stated for local data."""

from __future__ import annotations

import msgspec
import numpy as np

from common.algorithms import build
from common.config import DataSection, Experiment
from common.config.schema import Kind
from common.data.dataset import load_data
from common.data.own.load import moments_of_table, read_schema, stated, with_statistics
from common.data.own.sources import is_own, is_table
from common.data.shards import assignment_of
from common.errors import ConfigError, DataError


def with_schema(experiment: Experiment) -> Experiment:
    """The experiment with the schema of its own dataset, which is read if necessary."""
    data = experiment.data
    if not is_own(data.dataset):
        _refuse_own_settings(data)
        return experiment
    if data.partition == "local":
        _check_local(experiment)
        return experiment
    if data.schema is not None and data.schema.digest:
        return experiment
    try:
        schema = read_schema(data, _wanted(experiment))
    except DataError as error:
        raise ConfigError(str(error)) from error
    return _with(experiment, msgspec.structs.replace(data, schema=schema))


def with_moments(experiment: Experiment) -> Experiment:
    """The experiment with mean and deviation of the training samples of its own table."""
    data = experiment.data
    if not (is_table(data.dataset) and data.standardise) or data.partition == "local":
        return experiment
    schema = stated(data)
    if schema.mean:
        return experiment
    try:
        dataset = load_data(data)
    except DataError as error:
        raise ConfigError(str(error)) from error
    assigned = assignment_of(data, dataset, experiment.experiment.seed)
    train = np.unique(np.concatenate(assigned.train))
    moments = moments_of_table(schema, dataset.inputs[0][train])
    found = with_statistics(schema, moments)
    return _with(experiment, msgspec.structs.replace(data, schema=found))


def _with(experiment: Experiment, data: DataSection) -> Experiment:
    return msgspec.structs.replace(experiment, data=data)


def _wanted(experiment: Experiment) -> Kind | None:
    kind = experiment.task.kind
    return None if kind == "auto" else kind


def _refuse_own_settings(data: DataSection) -> None:
    for name in ("target", "features", "group", "image_size", "schema"):
        if getattr(data, name):
            raise ConfigError(
                f"data.{name} is for your own dataset, but data.dataset is {data.dataset!r}; "
                'expected one such as "csv:FILE", or no such setting'
            )
    if data.partition == "local":
        raise ConfigError(
            f"data.partition is 'local', but data.dataset is {data.dataset!r}; expected what "
            'the boards have, such as "csv:FILE"'
        )


def _check_local(experiment: Experiment) -> None:
    """Refuse what needs to see the data of all clients at once."""
    data = experiment.data
    if data.schema is None:
        raise ConfigError(
            "data.partition is 'local', so only boards see the data; expected a section "
            "[data.schema] that says what it is ('fl-server init --dataset csv:FILE' writes it "
            "from an example)"
        )
    schema = data.schema
    if bool(schema.columns) != is_table(data.dataset) or not (schema.columns or schema.inputs):
        wanted = "columns" if is_table(data.dataset) else "inputs"
        raise ConfigError(f"data.schema of {data.dataset!r} has no {wanted}; expected some")
    if schema.names and schema.kind == "classification" and len(schema.names) != schema.outputs:
        raise ConfigError(
            f"data.schema.outputs is {schema.outputs}, but it has {len(schema.names)} names; "
            "expected as many"
        )
    impossible = {
        "data.share": data.share,
        "evaluation.union_samples": experiment.evaluation.union_samples,
        "data.max_samples": data.max_samples,
    }
    for name, value in impossible.items():
        if value:
            raise ConfigError(
                f"{name} is {value}, which needs samples of all clients in one place; expected "
                "0, as data.partition is 'local'"
            )
    if data.test == "official-like":
        raise ConfigError(
            "data.test is 'official-like', but data.partition is 'local'; expected 'pool', or "
            "'official' if every client has a test part of its own"
        )
    rebalance = build(experiment.algorithm.name, experiment.algorithm.options).rebalance
    if rebalance is not None and rebalance.scope == "all" and rebalance.statistic != "number":
        raise ConfigError(
            "algorithm.scope is 'all', which needs all clients' sizes; expected 'client', "
            "as data.partition is 'local'"
        )
