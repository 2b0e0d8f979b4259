"""How a line of the log looks."""

from __future__ import annotations

import io
import json
import logging
import os
from pathlib import Path

import pytest

from common.program.logs import JournalFormatter, JsonFormatter, is_journal, make_formatter
from tests.hostile import controls, with_every_text


def record(text: str, level: int = logging.INFO) -> logging.LogRecord:
    return logging.LogRecord("fl.x", level, __file__, 1, text, (), None)


def test_a_line_for_machines_is_one_json_object() -> None:
    line = JsonFormatter().format(record('two\nlines and a "quote"', logging.WARNING))
    assert "\n" not in line
    found = json.loads(line)
    assert (found["level"], found["logger"]) == ("warning", "fl.x")
    assert found["message"] == 'two\nlines and a "quote"'


def test_a_traceback_stays_in_its_object() -> None:
    failed = record("failed", logging.ERROR)
    error = ValueError("boom")
    failed.exc_info = (ValueError, error, None)
    assert "boom" in json.loads(JsonFormatter().format(failed))["error"]


def test_every_line_for_journald_begins_with_its_priority() -> None:
    formatter = JournalFormatter("%(name)s: %(message)s")
    failed = record("a")
    failed.exc_info = (ValueError, ValueError("b\nc"), None)
    assert formatter.format(failed) == "<6>fl.x: a\n<6>    ValueError: b\n<6>    c"
    levels = (logging.DEBUG, logging.WARNING, logging.ERROR, logging.CRITICAL)
    assert [formatter.format(record("a", level))[1] for level in levels] == ["7", "4", "3", "3"]


def test_a_stream_is_journalds_only_if_systemd_says_so_of_this_very_stream(
    tmp_path: Path,
) -> None:
    with (tmp_path / "log").open("w") as stream:
        status = os.fstat(stream.fileno())
        mine = {"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"}
        assert is_journal(stream, mine)
        assert not is_journal(stream, {"JOURNAL_STREAM": "1:1"})
        assert not is_journal(stream, {})
        assert isinstance(make_formatter("human", stream, mine), JournalFormatter)
        assert isinstance(make_formatter("json", stream, mine), JsonFormatter)


@with_every_text
@pytest.mark.parametrize("form", ["human", "json"])
def test_no_message_forges_a_line_or_controls_a_terminal(form: str, text: str) -> None:
    formatter = make_formatter(form, io.StringIO(), {})
    line = formatter.format(record(text))
    assert len(line.splitlines()) == 1
    assert controls(line) == set()


@with_every_text
def test_the_lines_of_a_traceback_cannot_be_taken_for_lines_of_the_log(text: str) -> None:
    failed = record("failed")
    failed.exc_info = (ValueError, ValueError(text), None)
    first, *rest = make_formatter("human", io.StringIO(), {}).format(failed).split("\n")
    assert first.endswith("fl.x: failed")
    assert all(line.startswith("    ") and controls(line) == set() for line in rest)
