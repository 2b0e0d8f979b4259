from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from common.algorithms import build
from common.algorithms.base import Algorithm, Server, Update
from common.algorithms.fedavg import fedavg
from common.arrays import Arrays
from common.errors import FedbedError
from common.experiment.file import parse_experiment
from common.experiment.resolve import server_of
from common.plugins import use_code
from fl_server.run.server_half import ServerHalf

SERVER = server_of(parse_experiment({"model": {"name": "dnn"}, "data": {"clients": 2}}))
STATE = {"base.w": np.ones(2, np.float32), "base.batches": np.array(3)}
UPDATES = [Update(0, STATE, {"base": 1.0})]


def users(folder: Path, body: str) -> Algorithm:
    """An algorithm whose server half is a user's."""
    (folder / "mine.py").write_text(
        "from dataclasses import replace\n"
        "from common.algorithms.fedavg import fedavg\n"
        "def mine():\n"
        "    def server_update(server, state, updates):\n"
        f"        return {body}\n"
        "    return replace(fedavg(), server_update=server_update)\n"
    )
    use_code(folder)
    return build("mine.py:mine", {})


def test_what_is_right_passes_as_it_is(tmp_path: Path) -> None:
    half = ServerHalf(users(tmp_path, "server.mean(updates)"))
    new = half.server_update(SERVER, STATE, UPDATES)
    assert {name: array.tolist() for name, array in new.items()} == {
        "base.w": [1.0, 1.0],
        "base.batches": 3,
    }


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("state['none']", "KeyError: 'none' (mine.py:5)"),
        ("5", "TypeError: returned int; expected arrays by name (mine.py:4)"),
        (
            "{'base.w': [1.0]}",
            "TypeError: returned list as 'base.w'; expected an array (mine.py:4)",
        ),
        ("{}", "ValueError: base.batches was int64 (), and is nothing now (mine.py:4)"),
        (
            "{**state, 'base.w': state['base.w'][:1]}",
            "ValueError: base.w was float32 (2,), and is float32 (1,) now (mine.py:4)",
        ),
    ],
)
def test_a_mistake_of_a_user_is_a_sentence(tmp_path: Path, body: str, problem: str) -> None:
    half = ServerHalf(users(tmp_path, body))
    with pytest.raises(FedbedError) as caught:
        half.server_update(SERVER, STATE, UPDATES)
    text = f"server_update of fedavg: {problem}; correct it and resume the run"
    assert str(caught.value) == text


def test_a_mistake_of_ours_stays_what_it_is() -> None:
    def wrong(_server: Server, state: Arrays, _updates: object) -> Arrays:
        return {"base.w": state["none"]}

    with pytest.raises(KeyError):
        ServerHalf(replace(fedavg(), server_update=wrong)).server_update(SERVER, STATE, UPDATES)
