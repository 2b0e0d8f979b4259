"""Which CPU and torch computed each client, and the one warning if that changes."""

from __future__ import annotations

from fl_server.run.computed import MOST, Computed

PI, PC = "Cortex-A72, torch 2.9.1, fedbed 1", "PC (avx2), torch 2.13.0, fedbed 1"


def test_a_mixed_fleet_is_no_reason_to_warn() -> None:
    computed = Computed({})
    assert computed.note(0, PI)
    assert computed.note(1, PC)
    assert not computed.note(1, PC)
    assert [computed.warning(client) for client in (0, 1)] == ["", ""]
    assert computed.table() == {PI: (0,), PC: (1,)}


def test_a_client_that_moved_is_told_once_in_a_run_even_if_it_is_resumed() -> None:
    computed = Computed({PI: (0, 1)})
    assert computed.note(0, PC)
    warning = computed.warning(0)
    assert warning.startswith(f"client 0 was computed by {PI}, and now by {PC}")
    assert computed.note(1, PC)
    assert computed.warning(1) == ""
    resumed = Computed(computed.table())
    assert resumed.note(0, "another")
    assert resumed.warning(0) == ""


def test_what_boards_send_is_bounded() -> None:
    computed = Computed({})
    for at in range(2 * MOST):
        computed.note(0, f"cpu {at}")
    assert len(computed.table()) == MOST
    assert not computed.note(1, "")
