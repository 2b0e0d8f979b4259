"""The page in one piece, from its files, and the policy that allows just that."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources

STYLES = ("page.css", "list.css")
SCRIPTS = (
    *("base.js", "charts.js", "gantt.js", "plot.js", "ask.js", "fleet.js", "run.js"),
    *("board.js", "list.js", "compare.js", "main.js"),
)


def assemble_page() -> tuple[bytes, str]:
    """The page, and its content policy: nothing is loaded, nothing else is run."""
    folder = resources.files("fl_server.web") / "page"

    def read(*names: str) -> str:
        return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)

    css, js = read(*STYLES), read(*SCRIPTS)
    page = read("index.html").replace("/*page.css*/", css).replace("/*page.js*/", js)
    style, script = _hash(css), _hash(js)
    policy = (
        f"default-src 'none'; style-src '{style}'; script-src '{script}'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
    return page.encode(), policy


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
