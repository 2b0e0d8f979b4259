"""What a person may ask for on the page; the right to ask is checked before.

Everything goes the way that the command line goes: a request in the run's folder, which its
coordinator journals, or a file of the queue.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from common.errors import UsageError
from common.experiment.file import code_folder_of, read_experiment
from fl_server.queue import LONGEST_TEXT, Queue, Wanted
from fl_server.run.asking import ask, let_go_on
from fl_server.run.find import find_folder

log = logging.getLogger(__name__)

Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]


class _Asked(msgspec.Struct, frozen=True, tag_field="do", forbid_unknown_fields=True):
    """What somebody asks for."""


class Pause(_Asked, frozen=True, tag="pause"):
    """A pause after the open round."""

    run: Name


class Resume(_Asked, frozen=True, tag="resume"):
    """That a paused run goes on; one that nobody works on goes into the queue."""

    run: Name


class Stop(_Asked, frozen=True, tag="stop"):
    """The end of a coordinator's work after the open round."""

    run: Name


class Submit(_Asked, frozen=True, tag="submit"):
    """One more experiment."""

    text: Annotated[str, Meta(max_length=LONGEST_TEXT)]
    run: Annotated[str, Meta(max_length=200)] = ""


class Remove(_Asked, frozen=True, tag="remove"):
    """One experiment less."""

    id: Annotated[str, Meta(max_length=20)]


Asked: TypeAlias = Pause | Resume | Stop | Submit | Remove
_DECODER: msgspec.json.Decoder[Asked] = msgspec.json.Decoder(Asked)


def decode(body: bytes) -> Asked:
    """What a request asks for; UsageError if it is nothing that can be done."""
    try:
        return _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"this is nothing that can be asked for: {error}") from error


def do(runs: Path, asked: Asked, who: str) -> str:
    """Do it; what to tell the person."""
    log.info("%s asks for: %s", who, _brief(asked))
    match asked:
        case Pause(run):
            ask(runs, run, "pause")
            return f"{run} pauses after this round"
        case Stop(run):
            ask(runs, run, "stop")
            return f"{run} stops after this round"
        case Resume(run):
            return _resume(runs, run)
        case Submit(text, run):
            entry = Queue(runs).submit(text, run or None)
            return f"{entry.name} is number {entry.id} of the queue{_served(runs)}"
        case Remove(number):
            Queue(runs).remove(number)
            return f"number {number} is no longer in the queue"


def _resume(runs: Path, run: str) -> str:
    if let_go_on(runs, run):
        return f"{run} goes on"
    path = find_folder(runs, run) / "experiment.toml"
    entry = Queue(runs).add([Wanted(read_experiment(path), run, code_folder_of(path))])[0]
    return f"{run} goes on as number {entry.id} of the queue{_served(runs)}"


def _served(runs: Path) -> str:
    return (
        "" if Queue(runs).coordinator else "; it waits until somebody starts: fl-server serve"
    )


def _brief(asked: Asked) -> str:
    return f"submit {asked.run!r}" if isinstance(asked, Submit) else str(asked)
