"""Threads that decode a type for the first time at once (which crashed msgspec itself)."""

from __future__ import annotations

import subprocess
import sys

import pytest

TRIAL = """
import sys, threading
import msgspec
from common.wire.json_codec import decode, encode
from common.wire.presence import first_claim
from common.wire.messages import Connected, Telemetry
from common.worker.orders import REPORTS, Prepared

said = encode(first_claim("b", instance="i", starts=1, clients=(1, 2)))
report = msgspec.json.encode(Prepared(run="r", problem=""))
together = threading.Barrier(30)
sys.setswitchinterval(1e-6)

def work():
    together.wait()
    assert decode(said, Connected).board == "b"
    assert msgspec.convert({}, Telemetry) == Telemetry()
    assert REPORTS.decode(report).run == "r"

threads = [threading.Thread(target=work) for _ in range(30)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


@pytest.mark.parametrize("_attempt", range(5))
def test_many_threads_may_decode_a_type_for_the_first_time_at_once(_attempt: int) -> None:
    done = subprocess.run([sys.executable, "-c", TRIAL], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
