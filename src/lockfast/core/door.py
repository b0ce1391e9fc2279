"""One name's door and line, as every store with records keeps it.

The verbs of the backend protocol, as changes of a value: the memory store keeps doors in
a dict, the SQL stores load one from its rows inside a short transaction and write back
what `changed` and `dropped` tell. Time is the store's own, in seconds, and is passed in.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lockfast.core.admission import admit
from lockfast.core.place import (
    ADMITTED,
    BROKEN,
    CLOSING,
    GONE,
    HOLDING,
    WAITING,
    Place,
    Standing,
)
from lockfast.core.sequencing import hold_of
from lockfast.core.tokens import next_token
from lockfast.errors import ConfigurationError
from lockfast.model import (
    ALL,
    Claim,
    Closing,
    Grant,
    Held,
    Holder,
    Inspection,
    Owner,
    Renewal,
    Waiter,
)

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["TOMBSTONE", "WINDOW", "Door", "Place", "Standing", "another_capacity"]

WINDOW = 2.5
"""A waiter that was admitted by somebody else's release must answer within this time."""

TOMBSTONE = 60.0
"""A withdrawn claim is remembered at least this long against its own late request."""


class Door:
    """The claims of one name, in order of arrival, and the last token given.

    `woken` are the places that a verb admitted or turned away and that should be told.
    """

    __slots__ = ("capacity", "changed", "dropped", "places", "token", "woken")

    def __init__(
        self, *, capacity: int = 0, token: int = 0, places: list[Place] | None = None
    ) -> None:
        self.capacity: int = capacity
        self.token: int = token
        self.places: list[Place] = places if places is not None else []
        self.changed: list[Place] = []
        self.dropped: list[Place] = []
        self.woken: list[Place] = []

    # -- the verbs ---------------------------------------------------------------------

    def arrive(self, claim: Claim, *, now: float, bell: str = "") -> Grant | Held:
        """Grant, or say who is in the way; a repeat keeps its place or its hold (law 5)."""
        if not self.places:  # nobody here: the hot path of an uncontended lock
            self.capacity = claim.capacity
            return self._enter(claim, now=now)
        self.settle(now=now)
        place = self.find(claim.id)
        if place is None:
            self._check_capacity(claim)
            return self._newcomer(claim, now=now, bell=bell)
        if place.standing is HOLDING or place.standing is ADMITTED:
            # The deadline is set anew in the same step: the claimant counts its trust
            # from this request, so the store must count from it too.
            if place.standing is ADMITTED:
                place.since = now
                place.standing = HOLDING
            place.until = now + claim.ttl
            self.changed.append(place)
            return Grant(claim, place.token, claim.ttl)
        return self._held(place, now=now)

    def renew(self, claim_id: str, *, now: float, ttl: float) -> Renewal:
        """Set the deadline anew, if the claim still holds; never resurrects (law 4)."""
        place = self.find(claim_id)
        holds = self._holds(place, now=now)
        if place is not None and holds:
            place.standing = HOLDING
            place.until = now + ttl
            self.changed.append(place)
        self.settle(now=now)
        if holds:
            return Renewal.RENEWED
        place = self.find(claim_id)
        is_broken = place is not None and place.standing is BROKEN
        return Renewal.BROKEN if is_broken else Renewal.LOST

    def hand_over(self, claim: Claim, *, now: float) -> Renewal:
        """Renew, and let the hold be that of the client and owner which the claim names.

        Only what is nobody's, or to be nobody's: of two who adopt it, the first has it.
        """
        place = self.find(claim.id)
        if place is not None and place.claim.client not in ("", claim.client) and claim.client:
            return Renewal.LOST
        outcome = self.renew(claim.id, now=now, ttl=claim.ttl)
        if place is not None and outcome is Renewal.RENEWED:
            place.claim = replace(place.claim, client=claim.client, owner=claim.owner)
        return outcome

    def release(self, claim_id: str, *, now: float, tombstone: bool = False) -> bool:
        """End the claim's hold and admit the next; true if it was still held."""
        place = self.find(claim_id)
        was_held = place is not None and place.standing <= ADMITTED and now < place.until
        if place is not None and was_held:
            self._end(place, closed_until=_least_end(place, now=now), now=now)
            if tombstone:
                self.withdraw(place.claim, now=now, tombstone=True)
        self.settle(now=now)
        return was_held

    def withdraw(self, claim: Claim, *, now: float, tombstone: bool = False) -> None:
        """Make sure that the claim neither holds nor waits, now and by a late request."""
        place = self.find(claim.id)
        if place is not None and place.standing in (GONE, BROKEN):
            return
        if place is not None:
            self._drop(place)
        if tombstone:
            self._bury(claim, now=now, standing=GONE)
        self.settle(now=now)

    def break_(
        self, *, now: float, token: int | None = None, party: str | None = None
    ) -> tuple[Holder, ...]:
        """End every hold, or those of a token or of an explicit owner; the line moves up.

        Each claim's lock_delay stays closed.
        """
        self.settle(now=now)
        broken = [
            place
            for place in self.places
            if place.standing <= ADMITTED
            and token in (None, place.token)
            and party in (None, place.party)
        ]
        holders = tuple(self._holder(place, now=now) for place in broken)
        for place in broken:
            if place.standing is ADMITTED:
                # No tombstone: it may not have answered yet, and then it asks again.
                self._drop(place)
                continue
            self._end(place, closed_until=now + place.claim.lock_delay, now=now)
            self._bury(place.claim, now=now, standing=BROKEN)
        self.settle(now=now)
        return holders

    def forget(self, clients: Collection[str], *, now: float) -> None:
        """Treat the clients as dead: their holds failed now, their waiting claims are gone."""
        for place in list(self.places):
            if place.claim.client not in clients:
                continue
            if place.standing in (HOLDING, ADMITTED):
                self._fail(place, at=now, now=now)
            elif place.standing is WAITING:
                self._drop(place)
        self.settle(now=now)

    def settle(self, *, now: float) -> None:
        """Let what is overdue end, then admit from the front of the line."""
        if any(one.standing is not WAITING and one.until <= now for one in self.places):
            self._expire(now=now)
        line = [one for one in self.places if one.standing is WAITING]
        for place in self._admitted(line):
            place.standing = ADMITTED
            place.since = now
            place.until = now + WINDOW
            place.token = self._token_for(place, now=now)
            self.changed.append(place)
            self.woken.append(place)

    # -- what people see ---------------------------------------------------------------

    def inspect(self, name: str, *, now: float) -> Inspection:
        """Return what can be told of the door; call it on a settled door."""
        line = [place for place in self.places if place.standing is WAITING]
        return Inspection(
            name=name,
            capacity=self.capacity,
            holders=tuple(
                replace(self._holder(one, now=now), hold=hold_of(one.claim.id, party=one.party))
                for one in self._holding()
            ),
            line=tuple(
                Waiter(Owner.from_text(place.claim.owner), place.weight, number, now - place.since)
                for number, place in enumerate(line, 1)
            ),
            last_token=self.token or None,
            closing=self._closing(now=now),
        )

    @property
    def is_idle(self) -> bool:
        """Whether nobody holds, waits or is remembered: the record may be swept."""
        return not self.places

    def find(self, claim_id: str) -> Place | None:
        """Return the claim's place, never the ghost that its broken hold left."""
        for place in self.places:
            if place.claim.id == claim_id and place.standing is not CLOSING:
                return place
        return None

    # -- the steps ---------------------------------------------------------------------

    def _holds(self, place: Place | None, *, now: float) -> bool:
        # Admitted counts: the claim may know it from the one who rang.
        return place is not None and place.standing <= ADMITTED and now < place.until

    def _check_capacity(self, claim: Claim) -> None:
        if claim.capacity == self.capacity:
            return
        if any(one.standing < GONE for one in self.places):
            raise another_capacity(claim, in_use=self.capacity)
        self.capacity = claim.capacity

    def _newcomer(self, claim: Claim, *, now: float, bell: str) -> Grant | Held:
        line = [one for one in self.places if one.standing is WAITING]
        arrived = self._next_arrival()
        place = Place(claim, arrived=arrived, standing=WAITING, since=now, bell=bell)
        if place in self._admitted([*line, place]):
            return self._enter(claim, now=now)
        if claim.queues:
            self.places.append(place)
            self.changed.append(place)
        return self._held(place, now=now)

    def _admitted(self, line: list[Place]) -> list[Place]:
        return admit(capacity=self.capacity, inside=self._inside(), line=line) if line else []

    def _enter(self, claim: Claim, *, now: float) -> Grant:
        place = Place(
            claim,
            arrived=self._next_arrival(),
            standing=HOLDING,
            until=now + claim.ttl,
            since=now,
        )
        place.token = self._token_for(place, now=now)
        self.places.append(place)
        self.changed.append(place)
        return Grant(claim, place.token, claim.ttl)

    def _token_for(self, place: Place, *, now: float) -> int:
        if place.claim.party is not None:
            for one in self.places:
                if (
                    one is not place
                    and one.claim.party == place.claim.party
                    and one.standing in (HOLDING, ADMITTED)
                ):
                    return one.token  # one hold, one token
        self.token = next_token(last=self.token, clock=now)
        return self.token

    def _next_arrival(self) -> int:
        return self.places[-1].arrived + 1 if self.places else 0

    def _expire(self, *, now: float) -> None:
        for place in list(self.places):
            if place.standing is WAITING or place.until > now:
                continue
            if place.standing is HOLDING:
                self._fail(place, at=place.until, now=now)
            else:
                self._drop(place)
                if place.standing is ADMITTED:
                    self._turn_away(place.claim.client)

    def _turn_away(self, client: str) -> None:
        # Its window ran out unanswered: the client is dead or frozen, and so are all its
        # claims here. One by one they would stall the line for a window each.
        for place in list(self.places):
            if place.claim.client == client and place.standing is WAITING:
                self._drop(place)
                self.woken.append(place)

    def _fail(self, place: Place, *, at: float, now: float) -> None:
        closed_until = at
        if place.standing is HOLDING:  # one that was only admitted harmed nothing
            closed_until = max(at + place.claim.lock_delay, _least_end(place, now=now))
        self._end(place, closed_until=closed_until, now=now)

    def _end(self, place: Place, *, closed_until: float, now: float) -> None:
        """Let a hold be over; its weight stays closed for a while if it has to."""
        if closed_until > now and not self._party_stays(place):
            place.standing = CLOSING
            place.until = closed_until
            self.changed.append(place)
        else:
            self._drop(place)

    def _party_stays(self, place: Place) -> bool:
        return place.claim.party is not None and any(
            one is not place and one.claim.party == place.claim.party and one.standing is HOLDING
            for one in self.places
        )

    def _bury(self, claim: Claim, *, now: float, standing: Standing) -> None:
        until = now + max(claim.ttl, TOMBSTONE)
        tomb = Place(claim, arrived=self._next_arrival(), standing=standing, until=until)
        self.places.append(tomb)
        self.changed.append(tomb)

    def _drop(self, place: Place) -> None:
        self.places.remove(place)
        self.dropped.append(place)

    def _inside(self) -> list[Place]:
        return [one for one in self.places if one.standing <= CLOSING]

    def _held(self, place: Place, *, now: float) -> Held:
        number = None
        if place.claim.queues and place.standing is WAITING:
            number = 1 + self._waiting_before(place)
        # At least once per window, so that a place which opens is seen even if the one who
        # was admitted to it is dead: then nobody else would tell.
        ends = [now + WINDOW, *(one.until for one in self._inside())]
        return Held(self._holders(now=now), number, min(ends) - now, self._closing(now=now))

    def _waiting_before(self, place: Place) -> int:
        return sum(one.standing is WAITING and one.arrived < place.arrived for one in self.places)

    def _holders(self, *, now: float) -> tuple[Holder, ...]:
        return tuple(self._holder(one, now=now) for one in self._holding())

    def _holding(self) -> list[Place]:
        return [one for one in self.places if one.standing in (HOLDING, ADMITTED)]

    def _closing(self, *, now: float) -> tuple[Closing, ...]:
        return tuple(
            Closing(Owner.from_text(one.claim.owner), one.weight, one.until - now)
            for one in self.places
            if one.standing is CLOSING
        )

    def _holder(self, place: Place, *, now: float) -> Holder:
        return Holder(
            owner=Owner.from_text(place.claim.owner),
            token=place.token,
            weight=place.weight,
            age=max(0.0, now - place.since),
            remaining=max(0.0, place.until - now),
        )


def _least_end(place: Place, *, now: float) -> float:
    """Return until when the name stays closed even if the hold is over."""
    # Held since a time to come: the store's clock was put back, and min_hold counts from here.
    return min(place.since, now) + place.claim.min_hold


def another_capacity(claim: Claim, *, in_use: int) -> ConfigurationError:
    """Return the error of a claim whose name is in use with another capacity."""
    return ConfigurationError(
        f"{claim.name!r} is in use {_of_capacity(in_use)}; "
        f"it cannot be used {_of_capacity(claim.capacity)} before all have left",
        name=claim.name,
    )


def _of_capacity(capacity: int) -> str:
    if capacity == ALL:
        return "as a read-write lock"
    return "as a lock (capacity 1)" if capacity == 1 else f"with capacity {capacity}"
