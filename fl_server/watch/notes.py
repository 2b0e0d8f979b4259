"""PURE: facts that are news for people, as lines of text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from common.texts import printable, shortened
from fl_server.watch import facts
from fl_server.watch.facts import Fact
from fl_server.watch.limits import NOTE_LETTERS

Loud: TypeAlias = (
    facts.Lost
    | facts.Problem
    | facts.Failed
    | facts.Rejected
    | facts.Dropped
    | facts.BrokerDown
    | facts.Late
    | facts.StateLost
    | facts.Arithmetic
    | facts.MessageDropped
    | facts.Foreign
)
Calm: TypeAlias = (
    facts.Back | facts.BrokerUp | facts.Waiting | facts.Control | facts.Web | facts.Described
)
Noted: TypeAlias = Loud | Calm | facts.Finished


@dataclass(frozen=True, slots=True)
class Note:
    """One line of news; `number` counts them from 1."""

    number: int
    time: float
    text: str
    loud: bool


def note_of(fact: Noted, number: int) -> Note:
    """A fact as news."""
    text = shortened(printable(sentence(fact)), NOTE_LETTERS)
    return Note(number, fact.time, text, isinstance(fact, Loud))


def sentence(fact: Fact) -> str:
    """A fact as one line of news, if it has a text."""
    match fact:
        case facts.BrokerUp():
            return f"broker at {fact.address} is there"
        case facts.BrokerDown():
            return f"lost the broker at {fact.address} ({fact.text}); trying again"
        case facts.Finished():
            return f"the run has ended: {fact.reason}"
        case facts.Interrupted():
            return "interrupted"
        case facts.Note() | facts.Start() | facts.Problem() | facts.Late() | facts.Fault():
            return fact.text
        case facts.MessageDropped() | facts.Described() | facts.Web() | facts.Printed():
            return fact.text
        case _:
            return ""
