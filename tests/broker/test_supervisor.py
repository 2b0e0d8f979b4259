from __future__ import annotations

from broker.supervisor import Deaths


def test_one_death_is_answered_at_once_and_more_with_growing_pauses() -> None:
    deaths, pauses = Deaths(), []
    for now in range(4):
        deaths = deaths.after(float(now))
        pauses.append(deaths.pause_seconds)
    assert pauses == [0.0, 0.5, 1.0, 2.0]
    assert not deaths.too_many


def test_five_deaths_within_the_window_are_too_many() -> None:
    deaths = Deaths()
    for now in (0.0, 5.0, 10.0, 15.0, 29.0):
        deaths = deaths.after(now)
    assert deaths.too_many


def test_old_deaths_are_forgotten() -> None:
    deaths = Deaths()
    for now in (0.0, 10.0, 20.0, 30.0, 40.0, 50.0):
        deaths = deaths.after(now)
    assert not deaths.too_many
    assert deaths.times == (30.0, 40.0, 50.0)
