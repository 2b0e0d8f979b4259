from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from common.config import DataSection
from common.data.local_shards import data_of, make_local_shard
from common.data.own.load import with_statistics
from common.data.own.statistics import moments_of
from common.data.reported import LocalData, check_data, pooled_statistics, read_data_file
from common.errors import ProtocolError
from common.wire.messages import ClientData
from tests.common.data.own.test_local import GOOD, ROWS, experiment, put


def test_statistics_are_pooled_from_what_clients_report(tmp_path: Path) -> None:
    data = experiment(tmp_path).data
    for client in range(3):
        put(tmp_path / str(client) / "r.csv", [GOOD[0], *ROWS[10 * client : 10 * client + 12]])
    shards = [make_local_shard(data, tmp_path, client, 1)[0] for client in range(3)]
    reports = {client: data_of(data, one, classes=False) for client, one in enumerate(shards)}
    found = pooled_statistics(data, reports)
    every = np.concatenate([one.train.inputs[0] for one in shards])
    assert found is not None
    assert found.mean == pytest.approx([every[:, 0].mean(), 0, 0])
    assert found.deviation == pytest.approx([every[:, 0].std(), 1, 1])
    assert data.schema is not None
    assert with_statistics(data.schema, moments_of(every[:, :1])).mean == pytest.approx(
        found.mean
    )
    assert [one.classes for one in reports.values()] == [()] * 3
    assert data_of(data, shards[0], classes=True).classes == tuple(shards[0].counts.tolist())


def test_what_was_reported_is_kept_when_round_one_opens_and_then_stays(tmp_path: Path) -> None:
    data = experiment(tmp_path).data
    local = LocalData(tmp_path, data)
    report = ClientData(train=4, test=2, mean=(1.0,), squares=(4.0,))
    local.note(1, report)
    assert read_data_file(tmp_path) is None
    local.note(0, msgspec.structs.replace(report, mean=(3.0,)))
    local.fix()
    late = msgspec.structs.replace(report, mean=(99.0,))
    local.note(2, late)
    local.fix()
    again = LocalData(tmp_path, data)
    assert again.clients.keys() == {0, 1, 2}
    assert again.statistics == local.statistics
    assert again.statistics is not None
    assert again.statistics.mean == (2.0, 0.0, 0.0)


@pytest.mark.parametrize(
    "change",
    [{"train": 0}, {"mean": ()}, {"mean": (1.0, 2.0)}, {"classes": (1, 2)}, {"test": 0}],
)
def test_a_report_that_does_not_fit_the_schema_is_dropped(
    change: dict[str, object], tmp_path: Path
) -> None:
    data = experiment(tmp_path).data
    report = ClientData(train=4, test=2, mean=(1.0,), squares=(4.0,))
    check_data(data, report)
    with pytest.raises(ProtocolError):
        check_data(data, msgspec.structs.replace(report, **change))
    with pytest.raises(ProtocolError, match="but the run has none"):
        check_data(DataSection(), report)
