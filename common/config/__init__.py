"""What an experiment is: typed sections with a default and a description for every key.

Reading TOML files and overrides is in `common/experiment/file.py`; here is only what is valid.
"""

from __future__ import annotations

from common.config.data import DataSection as DataSection
from common.config.learning import AlgorithmSection as AlgorithmSection
from common.config.learning import CentralSection as CentralSection
from common.config.learning import ModelSection as ModelSection
from common.config.learning import Option as Option
from common.config.learning import TrainingSection as TrainingSection
from common.config.privacy import PrivacySection as PrivacySection
from common.config.run import AggregationSection as AggregationSection
from common.config.run import CommunicationSection as CommunicationSection
from common.config.run import EvaluationSection as EvaluationSection
from common.config.run import ExperimentSection as ExperimentSection
from common.config.run import SelectionSection as SelectionSection
from common.config.schema import ColumnSchema as ColumnSchema
from common.config.schema import InputSchema as InputSchema
from common.config.schema import Schema as Schema
from common.config.section import Section as Section
from common.config.task import TaskSection as TaskSection
from common.wire.messages import Encoding as Encoding


class Experiment(Section, frozen=True, kw_only=True):
    """One experiment, complete: every key that the user left out has its default."""

    experiment: ExperimentSection = ExperimentSection()
    algorithm: AlgorithmSection = AlgorithmSection()
    model: ModelSection = ModelSection()
    data: DataSection = DataSection()
    task: TaskSection = TaskSection()
    training: TrainingSection = TrainingSection()
    selection: SelectionSection = SelectionSection()
    aggregation: AggregationSection = AggregationSection()
    privacy: PrivacySection = PrivacySection()
    evaluation: EvaluationSection = EvaluationSection()
    communication: CommunicationSection = CommunicationSection()
    central: CentralSection = CentralSection()
