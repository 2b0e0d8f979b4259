"""Texts that an attacker would send: each means something to some program that shows it."""

from __future__ import annotations

import functools
import inspect
import unicodedata
from collections.abc import Callable

HOSTILE = (
    "[/x]",
    "[red]red[/red]",
    "[link=file:///etc/passwd]x[/link]",
    ":skull: :warning:",
    "\x1b[2J\x1b[31mred\x1b]0;title\x07",
    "\x9b31m eight bits",
    "bell\x07 backspace\x08\x08\x08 delete\x7f nul\x00",
    "a line\n2026-01-01 12:00:00,000 I fl_server: the run is finished",
    "return\rforged",
    "separators\u2028\u2029\x85\x0b\x0c",
    "right to left \u202egnp.exe",
    "\ufeff\u200b\u2066invisible",
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</td></tr></table><h1>x</h1>",
    "<!-- comment --> &lt; &#x3c;",
    '=HYPERLINK("http://evil.example","x")',
    "+1+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(1,2)",
    "\t=1+1",
    "a;=1+1;b",
    'a,"b",c',
    r"\input{/etc/passwd}",
    r"\\ \end{tabular} \write18{id}",
    "[2cm] * & % $ # _ { } ~ ^ < > \" ' `",
    "100 % ^^5cinput --- ?` !`",
    "$x^2$ and $\\frac$",
    "| a | b |\n|---|---|",
    "`code` **bold** _it_ ![x](http://evil.example/x) [y](javascript:z)",
    "# head\n\n- item\n\n    code",
    "\\| \\",
    "_leading",
    "%s %d {0} {x} %(x)s",
    "…äß漢字🙂",
    "a" * 2000,
)


def controls(text: str) -> set[str]:
    """The characters of a text that could control a terminal or reorder a line."""
    bad = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    return {repr(c) for c in text if unicodedata.category(c) in bad}


def with_every_text(test: Callable[..., None]) -> Callable[..., None]:
    """One test with all texts, one after another; a traceback shows which `text` it was."""

    @functools.wraps(test)
    def run(**fixtures: object) -> None:
        for text in HOSTILE:
            test(text=text, **fixtures)

    found = inspect.signature(test)
    others = [parameter for name, parameter in found.parameters.items() if name != "text"]
    run.__signature__ = found.replace(parameters=others)  # type: ignore[attr-defined]
    return run
