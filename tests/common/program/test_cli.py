"""Being a program: whatever is written, and wherever to, it does not end the program."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = r"""
import click
from rich.console import Console
from common.errors import FedbedError
from common.program.cli import Commands

@click.group(cls=Commands)
def main(): pass

@main.command()
def show():
    click.echo("echo \u00b1 \u2581 \u6f22")
    print("print \u00b1 \u2581 \u6f22")
    Console().print("rich \u00b1 \u2581 \u6f22")
    raise FedbedError("a \x1b[31m text \u00b1\nwith a cure")

main()
"""


@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONIOENCODING": "latin-1"},
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
)
def test_a_letter_that_the_output_does_not_have_is_escaped(environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "show"],
        env={**os.environ, **environment},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == [b"echo", b"print", b"rich"]
    assert rb"\u2581" in lines[1]
    assert done.stderr.startswith(rb"error: a \x1b[31m text ")
    assert done.stderr.endswith(b"\nwith a cure\n")
