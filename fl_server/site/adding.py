"""Whether a relay can add up the updates of an experiment, and which of them.

Needs no data and no torch: the model that arrives has the names and shapes of updates.
"""

from __future__ import annotations

import math

import msgspec

from common.algorithms.base import Server
from common.arrays import Array, Arrays
from common.config import Experiment
from common.data.dataset import info_of
from common.errors import ConfigError
from common.experiment.resolve import algorithm_of, own_code, participants_of
from common.experiment.sums import scale_of
from common.privacy.exact import Scale
from common.rng import generator
from common.wire.messages import TrainDetail
from common.wire.tensors import ModelMeta, UpdateMeta, check_arrays, decode_tensors
from fl_server.run.checks import check_weights
from fl_server.run.server_half import ServerHalf


class Adding:
    """How the updates of one run are checked and added up."""

    def __init__(self, detail: TrainDetail) -> None:
        try:
            self.experiment = msgspec.json.decode(detail.experiment, type=Experiment)
        except msgspec.DecodeError as error:
            raise ConfigError(f"{detail.run} is of fedbed {detail.version}: {error}") from error
        self.scale = check_sites(self.experiment)
        self._half = ServerHalf(algorithm_of(self.experiment))
        self._most_samples = info_of(self.experiment.data).size
        self._expected: Arrays | None = None

    @property
    def grace(self) -> float:
        """How long the coordinator waits for a lost board."""
        grace = self.experiment.experiment.grace
        return math.inf if grace == "forever" else grace

    @property
    def deadline(self) -> float:
        """How long a round may take."""
        return self.experiment.experiment.deadline or math.inf

    @property
    def has_model(self) -> bool:
        """Whether it is known what an update looks like."""
        return self._expected is not None

    @property
    def largest_update(self) -> int:
        """How many bytes an update may have."""
        assert self._expected is not None, "asked only once the model is here"
        return 4 * sum(array.nbytes for array in self._expected.values()) + 1024 * 1024

    def learn_model(self, blob: bytes) -> None:
        """Learn from a model what an update looks like; ProtocolError if it is none."""
        download, _ = decode_tensors(blob, ModelMeta, self.experiment.communication.encoding)
        self._expected = self._half.expects(_server(self.experiment), download)

    def decode(self, blob: bytes) -> tuple[dict[str, Array], UpdateMeta]:
        """A client's update as it came."""
        return decode_tensors(blob, UpdateMeta, self.experiment.communication.encoding)

    def check(self, arrays: Arrays, meta: UpdateMeta) -> None:
        """ProtocolError if the coordinator would not count this update."""
        assert self._expected is not None, "asked only once the model is here"
        check_arrays(arrays, self._expected)
        most_weight = self._half.most_weight
        check_weights(meta, self._expected, self._most_samples, most_weight)


def check_sites(experiment: Experiment) -> Scale:
    """The resolution of sums; ConfigError if sites cannot add up this experiment's updates."""
    scale = scale_of(experiment)
    settings, name = experiment.aggregation, experiment.algorithm.name
    if scale is None:
        raise ConfigError(
            f"aggregation.arithmetic is {settings.arithmetic!r}; sites add up the updates of "
            "their clients, which needs 'exact'"
        )
    if settings.clip_norm:
        raise ConfigError(
            f"aggregation.clip_norm is {settings.clip_norm:g}, which the coordinator does to "
            "single updates, and a site sends sums; expected 0"
        )
    if experiment.selection.extra:
        raise ConfigError(
            f"selection.extra is {experiment.selection.extra}, by which the first updates "
            "count, and a site sends all of its own at once; expected 0"
        )
    if settings.buffer:
        raise ConfigError(
            f"aggregation.buffer is {settings.buffer}, by which updates of several rounds "
            "count by their age, and a site sends sums of one round; expected 0"
        )
    if experiment.privacy.secure:
        raise ConfigError(
            "privacy.secure is true: boards exchange keys with the coordinator, which a site's "
            "relay does not pass on; expected false"
        )
    if any(place == name for place in own_code(experiment)):
        raise ConfigError(
            f"algorithm.name is {name!r}, whose code a site's relay does not have"
        )
    algorithm = algorithm_of(experiment)
    if algorithm.needs_each or algorithm.private is not None:
        raise ConfigError(
            f"algorithm.name is {name!r}, whose server looks at single updates, and a site "
            "sends sums"
        )
    return scale


def _server(experiment: Experiment) -> Server:
    """What an algorithm may know when it says what an update looks like."""
    return Server(
        clients=experiment.data.clients,
        participants=len(participants_of(experiment)),
        classes=info_of(experiment.data).classes,
        round=0,
        rng=lambda purpose: generator(experiment.experiment.seed, purpose, 0),
        aggregation=experiment.aggregation,
    )
