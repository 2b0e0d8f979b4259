"""Fleet files: what they mean, and what is said about those that mean nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from common.errors import ConfigError
from fl_server.fleet.file import EFFICIENCY, boards_of, parse_fleet, speed_of
from fl_server.fleet.kinds import Hardware
from fl_server.fleet.profiles import BOARDS, LINKS
from fl_server.run.fleet import read_fleet
from tests.fl_server.fleet.fleets import fleet_of, group

EXAMPLES = Path(__file__).parents[3] / "examples" / "fleets"
PI = {"name": "pi", "board": "raspberry-pi-4", "link": "lte"}


def test_a_group_has_the_numbers_of_its_profiles() -> None:
    (found,) = parse_fleet({"group": [PI]}).group
    assert (found.hardware, found.network) == (BOARDS["raspberry-pi-4"], LINKS["lte"])


def test_single_numbers_replace_those_of_a_profile() -> None:
    own = {**PI, "hardware": {"idle": 9.0}, "network": {"up": 2.0}}
    (found,) = parse_fleet({"group": [own]}).group
    assert (found.hardware.idle, found.hardware.training) == (9.0, 6.3)
    assert (found.network.up, found.network.down) == (2.0, 14.7)


def test_a_speed_of_ones_own_replaces_that_of_the_profile() -> None:
    fleet = parse_fleet({"group": [{**PI, "hardware": {"samples_per_second": 70.0}}]})
    assert speed_of(fleet, fleet.group[0], 1e6) == 70.0


def test_a_relative_speed_is_a_multiple_of_this_machine() -> None:
    slow = {"name": "slow", "hardware": {"relative": 0.25}}
    fleet = parse_fleet({"machine": 1000.0, "group": [slow]})
    assert speed_of(fleet, fleet.group[0], 1e6) == 250.0


def test_a_profile_is_as_fast_as_its_operations_allow() -> None:
    fleet = parse_fleet({"group": [PI]})
    pi = BOARDS["raspberry-pi-4"]
    expected = pi.gflops * 1e9 * EFFICIENCY / pi.cores / 2e6
    assert speed_of(fleet, fleet.group[0], 2e6) == pytest.approx(expected)


def test_every_profile_has_exactly_one_speed_and_draws_more_when_it_trains() -> None:
    for name, board in BOARDS.items():
        assert isinstance(board, Hardware)
        parse_fleet({"group": [{"name": "x", "board": name}]})
        assert board.idle < board.sending < board.training


def test_clients_are_shared_out_in_order_and_evenly() -> None:
    fleet = fleet_of(group("a", boards=2), group("b", boards=1))
    boards = boards_of(fleet, range(7))
    assert [(board.name, board.clients) for board in boards] == [
        ("a-1", (0, 1)),
        ("a-2", (2, 3)),
        ("b-1", (4, 5, 6)),
    ]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "fleet file: Object missing required field group"),
    ({"group": []}, "group: Expected array of length >= 1"),
    ({"group": [{**PI, "board": "pi4"}]}, "group[0].board is 'pi4'; expected one of"),
    ({"group": [{**PI, "link": "ltee"}]}, "did you mean 'lte'?"),
    ({"group": [{**PI, "bords": 3}]}, "did you mean 'boards'?"),
    ({"group": [{"name": "x"}]}, "group[0].hardware: exactly one of samples_per_second"),
    (
        {"group": [{"name": "x", "hardware": {"gflops": 1.0, "samples_per_second": 2.0}}]},
        "samples_per_second and gflops are given",
    ),
    ({"group": [{"name": "x", "hardware": {"relative": 0.5}}]}, "the file has no machine"),
    ({"group": [{**PI, "workers": 9}]}, "group[0].workers is 9, but the board has 4 cores"),
    ({"group": [PI, PI]}, "two groups have the name 'pi'"),
    ({"group": [{**PI, "network": {"outages": [[5, 4]]}}]}, "group[0].network.outages has [5"),
    ({"group": [{**PI, "presence": {"on": 5.0}}]}, "on and off belong together"),
    ({"group": [group(network={"outage_every": 5.0})]}, "belong together"),
    ({"group": [{**PI, "network": {"up": -1.0}}]}, "group[0].network.up"),
]


@pytest.mark.parametrize(("table", "said"), WRONG)
def test_a_wrong_file_is_refused_with_the_place(table: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_fleet(table)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_more_boards_than_clients_are_refused() -> None:
    with pytest.raises(ConfigError, match="3 boards, but only 2 clients"):
        boards_of(fleet_of(group(boards=3)), range(2))


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.name)
def test_the_fleet_files_that_come_with_fedbed_can_be_used(path: Path) -> None:
    assert read_fleet(path).group
