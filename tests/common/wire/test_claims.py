"""The table of `common.wire.claims`, line by line; any conflict ends with one survivor."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.wire.claims import (
    ANSWER_SECONDS,
    MOST_SUSPECTS,
    PATIENCE_SECONDS,
    REPEAT_SECONDS,
    ClaimState,
    Outcome,
    PublishClaim,
    Refused,
    Settled,
    clash,
    cleared,
    connect,
    explain,
    received,
    tick,
)
from common.wire.messages import COORDINATOR, PROTOCOL, Connected


def claim(
    instance: str,
    *,
    board: str = "attic",
    clients: tuple[int, ...] = (0, 1),
    since: float = 10.0,
    settled: bool = False,
    connected: bool = True,
    session: tuple[int, int] = (1, 1),
) -> Connected:
    return Connected(
        protocol=PROTOCOL,
        version="1",
        board=board,
        instance=instance,
        session=session,
        connected=connected,
        settled=settled,
        since=since,
        clients=clients,
        host=f"host-{instance}",
    )


MINE = claim("me")
SETTLED = msgspec.structs.replace(MINE, settled=True)
RIVAL = claim("other", since=20.0)


def test_a_new_connection_is_announced_under_its_number() -> None:
    state, outcomes = connect(ClaimState(MINE), 7)
    assert state.claim.session == (1, 7)
    assert outcomes == (PublishClaim(state.claim),)


def test_a_claim_that_comes_back_and_meets_no_rival_is_settled() -> None:
    state, outcomes = received(ClaimState(MINE), MINE, stored=False, now=0.0)
    assert state.claim == SETTLED
    assert outcomes == (PublishClaim(SETTLED), Settled())


def test_nothing_is_settled_before_the_claim_came_back() -> None:
    assert tick(ClaimState(MINE), 1e9) == (ClaimState(MINE), ())


def test_a_settled_claim_does_not_settle_again() -> None:
    state = ClaimState(SETTLED, echoed=True)
    assert received(state, SETTLED, stored=False, now=0.0) == (state, ())
    assert tick(state, REPEAT_SECONDS - 1) == (state, ())


def test_a_settled_claim_is_repeated_now_and_then_because_brokers_forget() -> None:
    state, outcomes = tick(ClaimState(SETTLED, echoed=True), REPEAT_SECONDS)
    assert outcomes == (PublishClaim(SETTLED),)
    assert tick(state, REPEAT_SECONDS + 1)[1] == ()


def test_a_stored_rival_is_waited_for_and_overcome_when_it_never_answers() -> None:
    state, outcomes = received(ClaimState(MINE), RIVAL, stored=True, now=100.0)
    assert outcomes == ()
    state, outcomes = received(state, MINE, stored=False, now=100.1)
    assert outcomes == (PublishClaim(MINE),)
    state, outcomes = tick(state, 100.0 + PATIENCE_SECONDS - 0.01)
    assert (state.claim.settled, outcomes) == (False, ())
    state, outcomes = tick(state, 100.0 + PATIENCE_SECONDS)
    assert outcomes == (PublishClaim(SETTLED), Settled())


def test_an_older_rival_that_answers_refuses_us() -> None:
    older = claim("other", since=9.0)
    state, outcomes = received(ClaimState(MINE), older, stored=False, now=0.0)
    assert outcomes == (), "it may have waited in our session while we were away"
    state, _ = received(state, MINE, stored=False, now=0.1)
    _, outcomes = received(state, older, stored=False, now=0.2)
    assert outcomes == (Refused(explain(MINE, older), clear=False),)


def test_a_settled_rival_that_answers_refuses_us_though_it_is_younger() -> None:
    settled = claim("other", since=20.0, settled=True, board="cellar", clients=(1, 2))
    state, _ = received(ClaimState(MINE), settled, stored=True, now=0.0)
    state, _ = received(state, MINE, stored=False, now=0.1)
    _, outcomes = received(state, settled, stored=False, now=0.2)
    assert outcomes == (Refused(explain(MINE, settled), clear=True),)


def test_a_rival_that_leaves_is_waited_for_no_longer() -> None:
    """Claims and farewell of the rival were queued in our session while we were away."""
    rival = claim("other", since=9.0, settled=True)
    state, _ = received(ClaimState(MINE), rival, stored=False, now=0.0)
    gone = msgspec.structs.replace(rival, connected=False)
    state, outcomes = received(state, gone, stored=False, now=0.0)
    assert (state.suspects, outcomes) == ({}, (PublishClaim(MINE),))
    assert received(state, MINE, stored=False, now=0.1)[1] == (PublishClaim(SETTLED), Settled())


@pytest.mark.parametrize("times", [1, 2, 5])
def test_a_claim_that_nobody_defends_does_not_drive_us_out(times: int) -> None:
    thief = claim("thief", since=0.0, settled=True)
    state = ClaimState(SETTLED, echoed=True)
    for _ in range(times):
        state, outcomes = received(state, thief, stored=False, now=1.0)
        assert outcomes == (PublishClaim(SETTLED),)
    for _ in range(times):
        state, outcomes = received(state, SETTLED, stored=False, now=1.1)
        assert outcomes == ()
    state, _ = tick(state, 1.0 + ANSWER_SECONDS)
    state, _ = tick(state, 1.0 + ANSWER_SECONDS)
    assert state.suspects == {}
    _, outcomes = received(state, thief, stored=False, now=2.0 + ANSWER_SECONDS)
    assert outcomes == (PublishClaim(SETTLED),), "it has to answer again"


def test_invented_rivals_are_not_all_remembered() -> None:
    state = ClaimState(SETTLED, echoed=True)
    for at in range(10 * MOST_SUSPECTS):
        state, _ = received(state, claim(f"i{at}", since=0.0), stored=False, now=1.0)
    assert len(state.suspects) <= MOST_SUSPECTS


def test_the_echo_of_an_earlier_connection_is_no_echo() -> None:
    state, _ = connect(ClaimState(MINE), 2)
    assert received(state, MINE, stored=False, now=0.0) == (state, ())
    assert received(state, state.claim, stored=True, now=0.0) == (state, ())


@pytest.mark.parametrize("mine", [MINE, SETTLED])
def test_a_live_claim_of_a_weaker_rival_makes_us_publish_the_claim_again(
    mine: Connected,
) -> None:
    state = ClaimState(mine)
    assert received(state, RIVAL, stored=False, now=0.0) == (state, (PublishClaim(mine),))


def test_of_two_settled_claims_the_older_one_wins() -> None:
    older = claim("other", since=9.0, settled=True)
    state, outcomes = received(ClaimState(SETTLED), older, stored=False, now=0.0)
    assert outcomes == (PublishClaim(SETTLED),), "it has to answer"
    state, _ = received(state, SETTLED, stored=False, now=0.1)
    _, outcomes = received(state, older, stored=False, now=0.2)
    assert isinstance(outcomes[0], Refused)


def test_a_settled_claim_answers_a_stored_rival() -> None:
    state = ClaimState(SETTLED, echoed=True)
    assert received(state, RIVAL, stored=True, now=0.0)[1] == (PublishClaim(SETTLED),)


def test_our_own_will_makes_us_publish_the_claim_again() -> None:
    state = ClaimState(msgspec.structs.replace(SETTLED, session=(1, 5)))
    gone = claim("me", connected=False, session=(1, 5))
    assert received(state, gone, stored=False, now=0.0) == (state, (PublishClaim(state.claim),))


def test_the_will_of_an_earlier_connection_of_ours_changes_nothing() -> None:
    state = ClaimState(msgspec.structs.replace(SETTLED, session=(1, 5)))
    old = claim("me", connected=False, session=(1, 4))
    assert received(state, old, stored=False, now=0.0) == (state, ())


def test_the_farewell_of_another_on_our_place_makes_us_publish_the_claim_again() -> None:
    state = ClaimState(SETTLED)
    gone = msgspec.structs.replace(RIVAL, connected=False)
    assert received(state, gone, stored=False, now=0.0) == (state, (PublishClaim(SETTLED),))


def test_a_removed_announcement_of_ours_makes_us_publish_the_claim_again() -> None:
    state = ClaimState(SETTLED)
    assert cleared(state, "attic") == (state, (PublishClaim(SETTLED),))
    assert cleared(state, "cellar") == (state, ())


def test_whoever_claims_other_things_does_not_matter() -> None:
    state = ClaimState(MINE)
    for other in (
        claim("other", board="cellar", clients=(2, 3), since=0.0, settled=True),
        claim("other", board="cellar", clients=(0, 1), since=0.0, connected=False),
        claim("other", board=COORDINATOR, clients=(), since=0.0),
    ):
        for stored in (True, False):
            assert received(state, other, stored=stored, now=0.0) == (state, ())


def test_the_refusal_names_both_sides() -> None:
    same = claim("other", since=1.0)
    assert explain(MINE, same) == (
        "board name 'attic' is already used by the daemon on host-other; "
        "this one is on host-me: give it another --board name"
    )
    overlap = claim("other", board="cellar", clients=(1, 2))
    assert explain(MINE, overlap) == (
        "board 'attic' claims clients 1, but board 'cellar' (host-other) "
        "already simulates them: give this one other --clients"
    )
    server = claim("me", board=COORDINATOR, clients=())
    assert "another coordinator (host-other) is already running" in explain(server, same)


@dataclass
class Post:
    """A broker: keeps one announcement per board, hands copies to all who listen."""

    stored: dict[str, Connected] = field(default_factory=dict)
    boxes: dict[str, list[tuple[Connected | str, bool]]] = field(default_factory=dict)

    def join(self, name: str) -> None:
        self.boxes[name] = [(kept, True) for kept in self.stored.values()]

    def publish(self, message: Connected) -> None:
        self.stored[message.board] = message
        for box in self.boxes.values():
            box.append((message, False))

    def clear(self, board: str) -> None:
        self.stored.pop(board, None)
        for box in self.boxes.values():
            box.append((board, False))


@dataclass
class Quarrel:
    """Claimants on one broker; `draw` decides whose message arrives when, and how often."""

    draw: st.DataObject
    post: Post = field(default_factory=Post)
    states: dict[str, ClaimState] = field(default_factory=dict)
    settled: set[str] = field(default_factory=set)
    beaten: set[str] = field(default_factory=set)
    now: float = 0.0

    def perform(self, name: str, outcome: tuple[ClaimState, tuple[Outcome, ...]]) -> None:
        self.states[name], outcomes = outcome
        for item in outcomes:
            match item:
                case PublishClaim(published):
                    self.post.publish(published)
                case Settled():
                    self.settled.add(name)
                case Refused(clear=clear):
                    self.beaten.add(name)
                    del self.post.boxes[name]
                    if clear:
                        self.post.clear(self.states[name].claim.board)
                    return

    def join(self, mine: Connected) -> None:
        self.post.join(mine.instance)
        self.perform(mine.instance, connect(ClaimState(mine), 1))

    def deliver_one(self) -> bool:
        """One message to one party: what was stored comes first, the rest in any order."""
        waiting = sorted(name for name, box in self.post.boxes.items() if box)
        if not waiting:
            return False
        name = self.draw.draw(st.sampled_from(waiting))
        box = self.post.boxes[name]
        place = 0 if box[0][1] else self.draw.draw(st.integers(0, len(box) - 1))
        message, stored = box.pop(place)
        twice = self.draw.draw(st.booleans())
        for _ in range(1 + twice):
            if name not in self.beaten:
                self.perform(name, self.react(self.states[name], message, stored=stored))
        return True

    def react(
        self, state: ClaimState, message: Connected | str, *, stored: bool
    ) -> tuple[ClaimState, tuple[Outcome, ...]]:
        if isinstance(message, str):
            return cleared(state, message)
        return received(state, message, stored=stored, now=self.now)

    def calm_down(self) -> None:
        for _ in range(2000):
            if not self.deliver_one():
                return
        pytest.fail("they never stop talking")

    def wait(self) -> None:
        self.now += PATIENCE_SECONDS + 1
        for name in sorted(self.post.boxes):
            if name not in self.beaten:
                self.perform(name, tick(self.states[name], self.now))

    def survivors(self) -> set[str]:
        return set(self.states) - self.beaten


BOARDS = ["attic", "cellar", "shed"]
some_ids = st.lists(st.integers(0, 3), max_size=3, unique=True).map(tuple)


@st.composite
def claimants(draw: st.DrawFn, *, all_clash: bool) -> list[Connected]:
    instances = draw(st.lists(st.sampled_from("abcdef"), min_size=2, max_size=3, unique=True))
    same_board = draw(st.booleans())
    found = []
    for place, instance in enumerate(instances):
        board = BOARDS[0 if all_clash and same_board else place]
        ids = draw(some_ids)
        if all_clash and not same_board:
            ids = (9, *ids)
        if not all_clash:
            board = draw(st.sampled_from(BOARDS))
        found.append(claim(instance, board=board, clients=ids, since=draw(st.floats(0, 3))))
    return found


def run(quarrel: Quarrel, claims: list[Connected], *, settled_first: bool) -> None:
    """All join, at any moment; time only passes when everybody has heard everything."""
    for number, mine in enumerate(claims):
        quarrel.join(mine)
        if number == 0 and settled_first:
            quarrel.calm_down()
            assert quarrel.settled == {mine.instance}
        for _ in range(quarrel.draw.draw(st.integers(0, 4))):
            quarrel.deliver_one()
    for _ in range(3):
        quarrel.calm_down()
        quarrel.wait()
    quarrel.calm_down()


@given(claimants(all_clash=True), st.booleans(), st.data())
def test_of_those_who_claim_the_same_exactly_one_survives(
    claims: list[Connected], settled_first: bool, data: st.DataObject
) -> None:
    quarrel = Quarrel(data)
    run(quarrel, claims, settled_first=settled_first)
    assert len(quarrel.survivors()) == 1
    (winner,) = quarrel.survivors()
    assert quarrel.states[winner].claim.settled
    board = quarrel.states[winner].claim.board
    assert quarrel.post.stored[board] == quarrel.states[winner].claim
    if settled_first:
        assert winner == claims[0].instance, "whoever works already is not driven out"


@given(claimants(all_clash=False), st.booleans(), st.data())
def test_survivors_never_clash_and_whoever_clashes_with_nobody_survives(
    claims: list[Connected], settled_first: bool, data: st.DataObject
) -> None:
    quarrel = Quarrel(data)
    run(quarrel, claims, settled_first=settled_first)
    alive = [mine for mine in claims if mine.instance in quarrel.survivors()]
    assert alive
    assert not [(a, b) for a in alive for b in alive if clash(a, b)]
    for mine in claims:
        if not any(clash(mine, other) for other in claims):
            assert mine in alive
    assert {mine.instance for mine in alive} <= quarrel.settled
    for mine in alive:
        kept = quarrel.post.stored[mine.board]
        assert kept == quarrel.states[mine.instance].claim


@given(claimants(all_clash=True), st.data())
def test_dead_claims_that_are_still_stored_hinder_nobody(
    claims: list[Connected], data: st.DataObject
) -> None:
    quarrel = Quarrel(data)
    *dead, living = claims
    for gone in dead:
        settled = data.draw(st.booleans())
        quarrel.post.publish(msgspec.structs.replace(gone, settled=settled))
    quarrel.join(living)
    quarrel.calm_down()
    assert quarrel.settled == set()
    quarrel.wait()
    quarrel.calm_down()
    assert quarrel.settled == {living.instance}
