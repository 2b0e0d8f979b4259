from __future__ import annotations

from fl_server.coordinator.rate_limit import MOST_KEYS, RateLimit


def test_a_burst_is_allowed_and_then_one_word_now_and_then() -> None:
    ration = RateLimit(burst=3, seconds=10.0)
    assert [ration.allows("a", 0.0) for _ in range(5)] == [True, True, True, False, False]
    assert ration.allows("b", 0.0), "others are not punished"
    assert not ration.allows("a", 9.0)
    assert ration.allows("a", 10.5)
    assert not ration.allows("a", 10.6)
    assert [ration.allows("a", 1000.0) for _ in range(4)] == [True, True, True, False]


def test_the_number_of_keys_is_bounded() -> None:
    ration = RateLimit(burst=1)
    for round_number in range(MOST_KEYS):
        assert ration.allows(str(round_number), 0.0)
    assert ration.allows("one more", 0.0)
    assert not ration.allows("and another", 0.0), "the rest share one store"
