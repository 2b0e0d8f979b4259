"""What boards have reported of data that only they have, as a distribution to be shown."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from common.config import Experiment
from common.data.reported import FILE, read_data_file
from common.errors import UsageError
from fl_server.data.distribution import Distribution


def reported_distribution(experiment: Experiment, folder: Path) -> Distribution:
    """Samples of each client; of each class, if all boards have reported that."""
    found = read_data_file(folder)
    if found is None:
        raise UsageError(
            "data.partition is 'local': only boards know the data, and what they report is in "
            f"a run's {FILE}; expected a run that has begun: fl-server data show "
            "runs/NAME/experiment.toml"
        )
    reports = [found.clients.get(client) for client in range(experiment.data.clients)]
    with_classes = all(report is None or report.classes for report in reports)
    width = max((len(report.classes) for report in reports if report), default=0)
    width = width if with_classes else 1
    train, test = np.zeros((2, len(reports), max(width, 1)), np.int64)
    for client, report in enumerate(reports):
        if report is not None:
            train[client] = report.classes if with_classes else report.train
            test[client, 0] = report.test
    return Distribution(train, test, 0)
