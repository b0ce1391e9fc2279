"""The reference semantics of every verb, under random histories."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule
from occupancy import occupied

from lockfast.core.door import Door, Entry, EntryState
from lockfast.model import Claim, Grant, Held, Renewal

INSIDE = (EntryState.HOLDING, EntryState.ADMITTED, EntryState.CLOSING)


class DoorMachine(RuleBasedStateMachine):
    """A few clients arrive, renew, release, withdraw, die and are broken; time passes."""

    claims = Bundle("claims")

    @initialize(capacity=st.sampled_from([1, 3]))
    def open(self, capacity: int) -> None:
        self.door = Door()
        self.capacity = capacity
        self.now = 1000.0
        self.count = 0
        self.tokens: list[int] = []
        self.token_of: dict[str, int] = {}
        self.buried: set[str] = set()

    @rule(
        target=claims,
        client=st.sampled_from("abc"),
        weight=st.integers(1, 3),
        party=st.sampled_from([None, None, "saga"]),
        delay=st.sampled_from([0.0, 0.0, 1.0]),
        queues=st.booleans(),
    )
    def make(
        self, client: str, weight: int, party: str | None, delay: float, *, queues: bool
    ) -> Claim:
        self.count += 1
        return Claim(
            id=f"{self.count}",
            name="door",
            client=client,
            owner="",
            weight=1 if party else min(weight, self.capacity),
            capacity=self.capacity,
            ttl=5.0,
            party=party,
            lock_delay=delay,
            min_hold=delay,
            queues=queues,
        )

    @rule(claim=claims)
    def arrive(self, claim: Claim) -> None:
        before = self.door.find(claim.id)
        was_holding = before is not None and before.state is EntryState.HOLDING
        held_until = before.until if before else 0.0
        answer = self.door.arrive(claim, now=self.now)
        if isinstance(answer, Held):
            assert claim.queues == (answer.place is not None) or claim.id in self.buried
            return
        assert claim.id not in self.buried, "a buried claim rose again"
        token = answer.token or 0
        if was_holding and self.now < held_until:
            assert token == self.token_of[claim.id]
        self.token_of[claim.id] = token
        place = self.door.find(claim.id)
        assert place is not None
        assert place.until == self.now + claim.ttl
        self.tokens.append(token)

    def holds(self, place: Entry | None) -> bool:
        """Return whether the claim is inside; an admitted claim is, and a wakeup may tell it so."""
        return place is not None and place.state <= EntryState.ADMITTED and place.until > self.now

    @rule(claim=claims)
    def renew(self, claim: Claim) -> None:
        place = self.door.find(claim.id)
        was_holding = self.holds(place)
        outcome = self.door.renew(claim.id, now=self.now, ttl=claim.ttl)
        assert (outcome is Renewal.RENEWED) == was_holding
        if place is not None and was_holding:
            self.token_of[claim.id] = place.token  # an admitted claim may renew before asking

    @rule(claim=claims, tombstone=st.booleans())
    def release(self, claim: Claim, *, tombstone: bool) -> None:
        place = self.door.find(claim.id)
        was_holding = self.holds(place)
        assert self.door.release(claim.id, now=self.now, tombstone=tombstone) == was_holding
        if was_holding and tombstone:
            self.buried.add(claim.id)

    @rule(claim=claims)
    def withdraw(self, claim: Claim) -> None:
        self.door.withdraw(claim, now=self.now, tombstone=True)
        place = self.door.find(claim.id)
        assert place is not None
        assert place.state in (EntryState.GONE, EntryState.BROKEN)
        self.buried.add(claim.id)

    @rule(client=st.sampled_from("abc"))
    def die(self, client: str) -> None:
        self.door.forget([client], now=self.now)
        assert not any(
            one.claim.client == client and one.state in (EntryState.HOLDING, EntryState.WAITING)
            for one in self.door.places
        )

    @rule()
    def break_(self) -> None:
        self.door.settle(now=self.now)
        self.buried |= {one.claim.id for one in self.door.places if one.state is EntryState.HOLDING}
        self.door.break_(now=self.now)
        assert not any(one.state is EntryState.HOLDING for one in self.door.places)

    @rule(seconds=st.sampled_from([0.1, 1.0, 2.5, 6.0]))
    def pass_time(self, seconds: float) -> None:
        # Keep the total below the lifetime of a tombstone: a claim whose tombstone has expired may
        # come back, which is correct.
        if self.now < 1050.0:
            self.now += seconds

    @invariant()
    def never_more_inside_than_fit(self) -> None:
        self.door.settle(now=self.now)
        inside = [one for one in self.door.places if one.state in INSIDE]
        going_on = {one.token for one in inside if one.state is not EntryState.CLOSING}
        # One hold, one token: if one claim of an owner is closing while another was admitted and
        # has yet to answer, the closing claim still belongs to that hold and takes up no more of
        # the door.
        ended = [one for one in inside if one.state is EntryState.CLOSING]
        same = [one for one in ended if one.token in going_on]
        assert occupied([one for one in inside if one not in same]) <= self.capacity

    @invariant()
    def nobody_waits_who_could_be_inside(self) -> None:
        line = [one for one in self.door.places if one.state is EntryState.WAITING]
        inside = [one for one in self.door.places if one.state in INSIDE]
        if line:
            assert occupied([*inside, line[0]]) > self.capacity

    @invariant()
    def places_stand_in_order_of_arrival(self) -> None:
        arrived = [one.arrived for one in self.door.places]
        assert arrived == sorted(set(arrived))

    @invariant()
    def a_hold_of_ones_own_has_a_token_of_its_own(self) -> None:
        holds = [one for one in self.door.places if one.state is EntryState.HOLDING]
        tokens = [one.token for one in holds if one.claim.party is None]
        assert len(tokens) == len(set(tokens))
        assert all(one.token <= self.door.token for one in holds)


DoorMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestDoor = DoorMachine.TestCase


def test_a_grant_is_a_grant() -> None:
    """The shortest history: arrive, hold, release, and the token grows."""
    door = Door()
    claim = Claim("1", "door", "a", "", 1, 1, 5.0)

    first = door.arrive(claim, now=1.0)
    door.release("1", now=2.0)
    second = door.arrive(Claim("2", "door", "a", "", 1, 1, 5.0), now=2.0)

    assert isinstance(first, Grant)
    assert isinstance(second, Grant)
    assert (second.token or 0) > (first.token or 0)


def test_a_clock_that_was_put_back_closes_no_name_that_was_given_back() -> None:
    """If the minimum hold began in the future, the name would stay closed until then."""
    door = Door()
    door.arrive(Claim("1", "door", "a", "", 1, 1, 5.0), now=4000.0)

    assert door.release("1", now=400.0)

    assert isinstance(door.arrive(Claim("2", "door", "a", "", 1, 1, 5.0), now=400.0), Grant)


def test_the_least_time_of_a_hold_counts_anew_when_the_clock_was_put_back() -> None:
    door = Door()
    door.arrive(Claim("1", "door", "a", "", 1, 1, 5.0, min_hold=3.0), now=4000.0)
    door.release("1", now=400.0)
    after = Claim("2", "door", "a", "", 1, 1, 5.0)

    assert isinstance(door.arrive(after, now=402.0), Held)
    assert isinstance(door.arrive(after, now=403.0), Grant)


def test_a_hold_whose_time_is_over_is_neither_renewed_nor_released() -> None:
    """No other claim has asked since, so the entry is still there when the late request comes."""
    for verb in ("renew", "release"):
        door = Door()
        door.arrive(Claim("1", "door", "a", "", 1, 1, 5.0), now=10.0)

        if verb == "renew":
            assert door.renew("1", now=15.0, ttl=5.0) is Renewal.LOST
        else:
            assert not door.release("1", now=15.0)

        assert isinstance(door.arrive(Claim("2", "door", "b", "", 1, 1, 5.0), now=15.0), Grant)


def test_a_repeated_arrival_holds_for_its_ttl_from_the_repeat() -> None:
    """The client counts from the repeat, so the store must not end the hold before."""
    door = Door()
    claim = Claim("1", "door", "a", "", 1, 1, 5.0)
    door.arrive(claim, now=10.0)
    door.arrive(claim, now=14.0)

    other = door.arrive(Claim("2", "door", "b", "", 1, 1, 5.0), now=18.0)

    assert isinstance(other, Held)


def test_a_late_copy_of_a_withdrawn_claim_is_refused() -> None:
    door = Door()
    claim = Claim("1", "door", "a", "", 1, 1, 5.0)
    door.withdraw(claim, now=10.0, tombstone=True)

    assert isinstance(door.arrive(claim, now=11.0), Held)

    assert isinstance(door.arrive(Claim("2", "door", "b", "", 1, 1, 5.0), now=11.0), Grant)
