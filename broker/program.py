"""The mosquitto program: where it is, and which version."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from common.errors import BrokerError

_FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/opt/homebrew/sbin")
_INSTALL = {
    "linux": "install it: sudo apt install mosquitto",
    "darwin": "install it: brew install mosquitto",
}
_ANSWER_SECONDS = 10.0
_OLDEST = 2  # before, a listener was open without a login unless configured otherwise


def find_mosquitto() -> Path:
    """The mosquitto program: on the PATH, or where packages put it out of a user's PATH."""
    found = shutil.which("mosquitto") or shutil.which(
        "mosquitto", path=os.pathsep.join(_FOLDERS)
    )
    if found is None:
        how = _INSTALL.get(sys.platform, "install it: https://mosquitto.org/download")
        raise BrokerError(f"cannot find mosquitto; {how}")
    return Path(found)


def mosquitto_version(program: Path) -> str:
    """The version that `program` reports, such as `2.0.11`."""
    try:
        # Its help ends with a code that differs between versions; only the text counts.
        done = subprocess.run(
            [program, "-h"],
            capture_output=True,
            text=True,
            timeout=_ANSWER_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BrokerError(f"cannot run {program}: {error}") from error
    match = re.search(r"mosquitto version (\d+(?:\.\d+)*)", done.stdout + done.stderr)
    if match is None:
        raise BrokerError(
            f"{program} does not report its version; expected Mosquitto 2.0 or later"
        )
    return match[1]


def check_version(program: Path) -> None:
    """Refuse a mosquitto that is too old."""
    version = mosquitto_version(program)
    if int(version.split(".")[0]) < _OLDEST:
        raise BrokerError(f"{program} is {version}; expected Mosquitto 2.0 or later")
