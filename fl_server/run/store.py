"""A run's folder: everything a coordinator needs to go on after it was killed at any instant.

runs/<name>/run.json              identity and format of the run
            experiment.toml       the resolved experiment
            checkpoints/          server state after the last rounds, newest last
            journal/round-<n>/    open.json: who is in the open round;
                                  updates that are safe (`updates/files.py`)
            metrics.jsonl events.jsonl model.safetensors
"""

from __future__ import annotations

import logging
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from common.arrays import Array, Arrays
from common.code_files import changed
from common.config import Experiment
from common.disk.atomic import (
    disk_errors,
    explain,
    remove_leftovers,
    write_atomic,
    write_named,
)
from common.errors import ProtocolError, StoreError, UsageError
from common.experiment.file import load_experiment, write_text
from common.side_thread import beside
from common.wire.chunks import blob_digest
from common.wire.json_codec import decodable
from common.wire.messages import Ids, Natural, Text, Wire
from common.wire.tensors import OWN_HEADER, decode_tensors, encode_tensors
from fl_server.rounds.state import Known, Open
from fl_server.run.metrics.records import TestedRound
from fl_server.run.run_record import FORMAT, RunRecord, read_record
from fl_server.run.updates.files import UpdateFiles
from fl_server.watch.facts.lines import TrainingLine

KEEP_CHECKPOINTS = 3


def nothing() -> None:
    """Nothing is to be done."""


log = logging.getLogger(__name__)


@decodable
class CheckpointMeta(Wire, frozen=True, kw_only=True):
    """What a checkpoint holds besides arrays.

    `record` is how its round was trained; its line of metrics is complete when the model has
    been tested, one round later. `previous` is the complete line of the round before.
    """

    run: Text
    round: Natural
    accepted: dict[Natural, Natural]
    record: TrainingLine
    previous: TestedRound | None = None
    known: dict[Natural, Known] = {}  # noqa: RUF012 - copied


class _OpenRecord(Wire, frozen=True, kw_only=True, rename={"round_number": "number"}):
    round_number: Natural
    selected: Ids
    testers: Ids
    started: dict[Natural, Natural] = {}  # noqa: RUF012 - copied


class RunStore:
    """The folder of one run."""

    def __init__(self, folder: Path, experiment: Experiment | None = None) -> None:
        self.folder = folder
        self.updates = UpdateFiles(folder / "journal")
        self._experiment = experiment
        self._record = read_record(folder)
        with disk_errors(folder):
            remove_leftovers(folder)

    @property
    def run(self) -> str:
        """The run's name on the wire."""
        return self._record.id

    @property
    def finished(self) -> bool:
        """Whether the run has ended."""
        return self._record.finished

    def experiment(self) -> Experiment:
        """The resolved experiment this run was started with."""
        if self._experiment is None:
            self._experiment = load_experiment(self.folder / "experiment.toml")
        return self._experiment

    @property
    def code(self) -> Path | None:
        """The folder of users' code."""
        return Path(self._record.code) if self._record.code else None

    def move_code(self, folder: Path) -> None:
        """Users' code is in another folder from now on."""
        self._update_record(code=str(folder))

    def note_code(self, digests: dict[str, str]) -> str:
        """Note the users' code that the run goes on with; says which files have changed."""
        other = changed(self._record.digests, digests)
        if other:
            self._update_record(digests=digests)
        return other if self._record.incarnation else ""

    def next_incarnation(self) -> int:
        """Count this coordinator among those that worked on the run."""
        self._update_record(incarnation=self._record.incarnation + 1)
        return self._record.incarnation

    @property
    def computed(self) -> dict[str, tuple[int, ...]]:
        """Which CPU and torch computed which clients."""
        return self._record.computed

    def note_computed(self, computed: dict[str, tuple[int, ...]]) -> None:
        """Write that down, if it is new."""
        if computed != self._record.computed:
            self._update_record(computed=computed)

    def mark_finished(self) -> None:
        """The run has ended for good; what only a restart needs is deleted."""
        self._update_record(finished=True)
        shutil.rmtree(self.folder / "journal", ignore_errors=True)

    def _update_record(self, **changes: Any) -> None:  # noqa: ANN401 - fields of RunRecord
        self._record = msgspec.structs.replace(self._record, **changes)
        write_atomic(self.folder / "run.json", msgspec.json.encode(self._record))

    # checkpoints

    def save_checkpoint(
        self, arrays: Arrays, meta: CheckpointMeta, meanwhile: Callable[[], None] = nothing
    ) -> None:
        """Keep the server's state after a round; `meanwhile` is called before it is flushed."""
        blob = encode_tensors(arrays, meta)
        digest, name = beside(blob_digest, blob), f"round-{meta.round:06d}"
        meanwhile()
        path = self.folder / "checkpoints" / name
        write_named(path, lambda: f"{name}-{digest.result()}.safetensors", blob)

    def load_checkpoint(self) -> tuple[dict[str, Array], CheckpointMeta] | None:
        """The newest checkpoint that is whole; None if there never was one.

        Damaged ones are passed over, and stay for people to look at.
        """
        problems: list[str] = []
        for path in reversed(self._checkpoints()):
            try:
                return self._read_checkpoint(path)
            except (ProtocolError, StoreError, OSError) as error:
                log.warning("passed over checkpoint %s: %s", path, error)
                problems.append(str(error))
        if problems:
            raise StoreError(
                f"none of the {len(problems)} checkpoints in {self.folder / 'checkpoints'} can "
                f"be read (the newest: {problems[0]}); nothing was deleted. Restore it "
                "from a copy, or start a new run"
            )
        return None

    def load_state(self, round_number: int) -> dict[str, Array]:
        """The server's state after a round that is not long ago."""
        for path in (self.folder / "checkpoints").glob(f"round-{round_number:06d}-*"):
            return self._read_checkpoint(path)[0]
        raise StoreError(f"the checkpoint of round {round_number} is gone")

    def _read_checkpoint(self, path: Path) -> tuple[dict[str, Array], CheckpointMeta]:
        blob = path.read_bytes()
        if path.stem.rpartition("-")[2] != blob_digest(blob):
            raise StoreError("its digest differs from the recorded one")
        arrays, meta = decode_tensors(blob, CheckpointMeta, header=OWN_HEADER)
        if meta.run != self.run:
            raise StoreError("it belongs to another run")
        return arrays, meta

    def _checkpoints(self) -> list[Path]:
        return sorted((self.folder / "checkpoints").glob("round-*.safetensors"))

    # the open round

    def open_round(self, opened: Open, *, durable: bool = False) -> None:
        """Write down who is in a round."""
        record = _OpenRecord(
            round_number=opened.round_number,
            selected=opened.selected,
            testers=opened.testers,
            started=dict(opened.started),
        )
        path = self.updates.folder(opened.round_number) / "open.json"
        write_atomic(path, msgspec.json.encode(record), durable=durable)

    def opened(self, round_number: int) -> Open | None:
        """Who is in a round, if it was opened."""
        path = self.updates.folder(round_number) / "open.json"
        if not path.exists():
            return None
        try:
            record = msgspec.json.decode(path.read_bytes(), type=_OpenRecord)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            log.warning("passed over %s: %s", path, error)
            return None
        return Open(record.round_number, record.selected, record.testers, record.started)

    def close_round(self, round_number: int, keep: int = KEEP_CHECKPOINTS) -> None:
        """Forget the journal of a round that is in a checkpoint, and old checkpoints."""
        self.updates.remove(round_number)
        for old in self._checkpoints()[:-keep]:
            try:
                old.unlink(missing_ok=True)
            except OSError as error:
                log.warning("%s stays: %s", old, explain(error))


def create_run(
    root: Path, name: str, experiment: Experiment, code: Path | None = None
) -> RunStore:
    """A new run folder; the name must be free."""
    folder = root / name
    if (folder / "run.json").exists():
        raise UsageError(f"run {name!r} is already there, in {folder}; choose another --run")
    with disk_errors(folder):  # models and updates: only its owner opens the folder to others
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomic(folder / "experiment.toml", write_text(experiment).encode())
    record = RunRecord(
        format=FORMAT,
        id=f"{name}.{secrets.token_hex(4)}",
        name=name,
        incarnation=0,
        finished=False,
        code=str(code or ""),
    )
    write_atomic(folder / "run.json", msgspec.json.encode(record))
    return RunStore(folder, experiment)


def has_run(root: Path, name: str) -> bool:
    """Whether a run of this name was ever started."""
    return (root / name / "run.json").exists()
