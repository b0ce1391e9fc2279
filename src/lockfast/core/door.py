"""The door of one name and its line, as every store with records keeps them.

This module implements the verbs of the port as changes to a value. The memory store keeps doors in
a dict; the SQL stores load a door from its rows in a short transaction, and write back the entries
in `changed` and `dropped`. The caller passes in the time, which is the store's own, in seconds.
"""

from __future__ import annotations

import enum
from dataclasses import replace
from typing import TYPE_CHECKING

from lockfast.core.admission import admit
from lockfast.core.lease_text import hold_of
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


# One claim at a door, and its state.


class EntryState(enum.IntEnum):
    """The state of a claim at a door. The first three count against the capacity."""

    HOLDING = 0
    # admitted by another claim's release; lasts for the window, and for the ttl after an answer
    ADMITTED = 1
    CLOSING = 2  # the hold has ended, but lock_delay or min_hold keeps the weight closed
    WAITING = 3
    GONE = 4  # a tombstone: this claim has ended
    BROKEN = 5  # a tombstone: an operator broke the hold


# Looking up an enum member runs Python code, which takes longer than the comparison that follows.
HOLDING, ADMITTED, CLOSING, WAITING, GONE, BROKEN = EntryState


class Entry:
    """One claim at the door."""

    __slots__ = ("arrived", "bell", "claim", "since", "state", "token", "until")

    def __init__(
        self,
        claim: Claim,
        *,
        arrived: int,
        state: EntryState,
        until: float = 0.0,
        since: float = 0.0,
        token: int = 0,
        bell: str = "",
    ) -> None:
        self.claim: Claim = claim
        self.arrived: int = arrived
        self.state: EntryState = state
        self.until: float = until
        self.since: float = since
        self.token: int = token
        self.bell: str = bell

    @property
    def weight(self) -> int:
        """How much of the capacity the claim takes."""
        return self.claim.weight

    @property
    def party(self) -> str | None:
        """The explicit owner; None once the hold has ended, so that no claim re-enters the hold."""
        return None if self.state is CLOSING else self.claim.party


# The token rule of every store that keeps records.
#
# A plain counter repeats tokens after a failover that lost the last writes. Here tokens also follow
# the store's clock. They go back only if writes are lost *and* the clock is now behind by more than
# the time that has passed since those writes.

TOKEN_LIMIT = 2**53
"""Tokens stay below this, so that a double and a JSON number represent them exactly."""


def next_token(*, last: int, clock: float) -> int:
    """Return the token of the next grant; `clock` is the store's own, in seconds since 1970."""
    return max(last + 1, int(clock * 1_000_000))


__all__ = [
    "ADMISSION_WINDOW_SECONDS",
    "TOMBSTONE_SECONDS",
    "Door",
    "Entry",
    "EntryState",
    "capacity_conflict",
]

ADMISSION_WINDOW_SECONDS = 2.5
"""How long a waiter admitted by another claim's release has to answer, in seconds."""

TOMBSTONE_SECONDS = 60.0
"""For how long at least a withdrawn claim is remembered, in seconds, to refuse its late request."""


class Door:
    """The claims of one name, in order of arrival, and the last token granted.

    `woken` lists the entries that a verb of the port admitted or turned away; their clients should
    be woken.
    """

    __slots__ = ("capacity", "changed", "dropped", "places", "token", "woken")

    def __init__(
        self, *, capacity: int = 0, token: int = 0, places: list[Entry] | None = None
    ) -> None:
        self.capacity: int = capacity
        self.token: int = token
        self.places: list[Entry] = places if places is not None else []
        self.changed: list[Entry] = []
        self.dropped: list[Entry] = []
        self.woken: list[Entry] = []

    # -- the verbs of the port ---------------------------------------------------------

    def arrive(self, claim: Claim, *, now: float, bell: str = "") -> Grant | Held:
        """Grant, or report the holders; a repeated request finds its entry or hold (law 5)."""
        if not self.places:  # no entries: the hot path of an uncontended lock
            self.capacity = claim.capacity
            return self._enter(claim, now=now)
        self.settle(now=now)
        place = self.find(claim.id)
        if place is None:
            self._check_capacity(claim)
            return self._join(claim, now=now, bell=bell)
        if place.state is HOLDING or place.state is ADMITTED:
            # The client counts its trust from this request. So the store resets the deadline in the
            # same step, to count from this request too.
            if place.state is ADMITTED:
                place.since = now
                place.state = HOLDING
            place.until = now + claim.ttl
            self.changed.append(place)
            return Grant(claim, place.token, claim.ttl)
        return self._held(place, now=now)

    def renew(self, claim_id: str, *, now: float, ttl: float) -> Renewal:
        """Extend the deadline if the claim still holds; never revives an ended hold (law 4)."""
        place = self.find(claim_id)
        holds = self._holds(place, now=now)
        if place is not None and holds:
            place.state = HOLDING
            place.until = now + ttl
            self.changed.append(place)
        self.settle(now=now)
        if holds:
            return Renewal.RENEWED
        place = self.find(claim_id)
        is_broken = place is not None and place.state is BROKEN
        return Renewal.BROKEN if is_broken else Renewal.LOST

    def hand_over(self, claim: Claim, *, now: float) -> Renewal:
        """Renew, and transfer the hold to the client and owner in the claim.

        A hold that belongs to a client cannot be adopted by another client; it can only be detached
        (by a claim without a client). So if two clients adopt the same detached hold, only the
        first one gets it.
        """
        place = self.find(claim.id)
        if place is not None and place.claim.client not in ("", claim.client) and claim.client:
            return Renewal.LOST
        outcome = self.renew(claim.id, now=now, ttl=claim.ttl)
        if place is not None and outcome is Renewal.RENEWED:
            place.claim = replace(place.claim, client=claim.client, owner=claim.owner)
        return outcome

    def release(self, claim_id: str, *, now: float, tombstone: bool = False) -> bool:
        """End the claim's hold and admit the next claims; return whether the claim had a hold."""
        place = self.find(claim_id)
        was_held = place is not None and place.state <= ADMITTED and now < place.until
        if place is not None and was_held:
            self._end(place, closed_until=_min_hold_end(place, now=now), now=now)
            if tombstone:
                self.withdraw(place.claim, now=now, tombstone=True)
        self.settle(now=now)
        return was_held

    def withdraw(self, claim: Claim, *, now: float, tombstone: bool = False) -> None:
        """Make sure that the claim neither holds nor waits, not even through a late request."""
        place = self.find(claim.id)
        if place is not None and place.state in (GONE, BROKEN):
            return
        if place is not None:
            self._drop(place)
        if tombstone:
            self._add_tombstone(claim, now=now, state=GONE)
        self.settle(now=now)

    def break_(
        self, *, now: float, token: int | None = None, party: str | None = None
    ) -> tuple[Holder, ...]:
        """End every hold, or only those with this token or explicit owner; admit the next claims.

        Each broken claim's lock_delay still applies.
        """
        self.settle(now=now)
        broken = [
            place
            for place in self.places
            if place.state <= ADMITTED
            and token in (None, place.token)
            and party in (None, place.party)
        ]
        holders = tuple(self._holder(place, now=now) for place in broken)
        for place in broken:
            if place.state is ADMITTED:
                # Add no tombstone. The claim may not have answered its admission yet, and will then
                # ask again.
                self._drop(place)
                continue
            self._end(place, closed_until=now + place.claim.lock_delay, now=now)
            self._add_tombstone(place.claim, now=now, state=BROKEN)
        self.settle(now=now)
        return holders

    def forget(self, clients: Collection[str], *, now: float) -> None:
        """Treat the clients as dead: their holds fail now, and their waiting claims are dropped."""
        for place in list(self.places):
            if place.claim.client not in clients:
                continue
            if place.state in (HOLDING, ADMITTED):
                self._fail(place, at=now, now=now)
            elif place.state is WAITING:
                self._drop(place)
        self.settle(now=now)

    def settle(self, *, now: float) -> None:
        """Expire overdue entries, then admit claims from the front of the line."""
        if any(one.state is not WAITING and one.until <= now for one in self.places):
            self._expire(now=now)
        line = [one for one in self.places if one.state is WAITING]
        for place in self._admitted(line):
            place.state = ADMITTED
            place.since = now
            place.until = now + ADMISSION_WINDOW_SECONDS
            place.token = self._token_for(place, now=now)
            self.changed.append(place)
            self.woken.append(place)

    # -- inspection --------------------------------------------------------------------

    def inspect(self, name: str, *, now: float) -> Inspection:
        """Return a snapshot of the door, which must have been settled before."""
        line = [place for place in self.places if place.state is WAITING]
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
        """Whether there are no entries, not even tombstones, so that the record may be reaped."""
        return not self.places

    def find(self, claim_id: str) -> Entry | None:
        """Return the claim's entry, but never a CLOSING entry, which a broken hold may leave."""
        for place in self.places:
            if place.claim.id == claim_id and place.state is not CLOSING:
                return place
        return None

    # -- the steps ---------------------------------------------------------------------

    def _holds(self, place: Entry | None, *, now: float) -> bool:
        # ADMITTED counts too, because another client may have notified the claim of its admission.
        return place is not None and place.state <= ADMITTED and now < place.until

    def _check_capacity(self, claim: Claim) -> None:
        if claim.capacity == self.capacity:
            return
        if any(one.state < GONE for one in self.places):
            raise capacity_conflict(claim, in_use=self.capacity)
        self.capacity = claim.capacity

    def _join(self, claim: Claim, *, now: float, bell: str) -> Grant | Held:
        line = [one for one in self.places if one.state is WAITING]
        arrived = self._next_arrival()
        place = Entry(claim, arrived=arrived, state=WAITING, since=now, bell=bell)
        if place in self._admitted([*line, place]):
            return self._enter(claim, now=now)
        if claim.queues:
            self.places.append(place)
            self.changed.append(place)
        return self._held(place, now=now)

    def _admitted(self, line: list[Entry]) -> list[Entry]:
        return admit(capacity=self.capacity, inside=self._inside(), line=line) if line else []

    def _enter(self, claim: Claim, *, now: float) -> Grant:
        place = Entry(
            claim,
            arrived=self._next_arrival(),
            state=HOLDING,
            until=now + claim.ttl,
            since=now,
        )
        place.token = self._token_for(place, now=now)
        self.places.append(place)
        self.changed.append(place)
        return Grant(claim, place.token, claim.ttl)

    def _token_for(self, place: Entry, *, now: float) -> int:
        if place.claim.party is not None:
            for one in self.places:
                if (
                    one is not place
                    and one.claim.party == place.claim.party
                    and one.state in (HOLDING, ADMITTED)
                ):
                    return one.token  # the claims of one owner share one hold and its token
        self.token = next_token(last=self.token, clock=now)
        return self.token

    def _next_arrival(self) -> int:
        return self.places[-1].arrived + 1 if self.places else 0

    def _expire(self, *, now: float) -> None:
        for place in list(self.places):
            if place.state is WAITING or place.until > now:
                continue
            if place.state is HOLDING:
                self._fail(place, at=place.until, now=now)
            else:
                self._drop(place)
                if place.state is ADMITTED:
                    self._turn_away(place.claim.client)

    def _turn_away(self, client: str) -> None:
        # An admission window passed without an answer, so the client is dead or frozen, and will
        # not answer for its other claims in this line either. If these claims were admitted one by
        # one, each would stall the line for one window.
        for place in list(self.places):
            if place.claim.client == client and place.state is WAITING:
                self._drop(place)
                self.woken.append(place)

    def _fail(self, place: Entry, *, at: float, now: float) -> None:
        closed_until = at
        if place.state is HOLDING:  # a claim that was only admitted has done no harm
            closed_until = max(at + place.claim.lock_delay, _min_hold_end(place, now=now))
        self._end(place, closed_until=closed_until, now=now)

    def _end(self, place: Entry, *, closed_until: float, now: float) -> None:
        """End a hold; its weight stays closed until `closed_until` if that is in the future."""
        if closed_until > now and not self._owner_still_holds(place):
            place.state = CLOSING
            place.until = closed_until
            self.changed.append(place)
        else:
            self._drop(place)

    def _owner_still_holds(self, place: Entry) -> bool:
        return place.claim.party is not None and any(
            one is not place and one.claim.party == place.claim.party and one.state is HOLDING
            for one in self.places
        )

    def _add_tombstone(self, claim: Claim, *, now: float, state: EntryState) -> None:
        until = now + max(claim.ttl, TOMBSTONE_SECONDS)
        tomb = Entry(claim, arrived=self._next_arrival(), state=state, until=until)
        self.places.append(tomb)
        self.changed.append(tomb)

    def _drop(self, place: Entry) -> None:
        self.places.remove(place)
        self.dropped.append(place)

    def _inside(self) -> list[Entry]:
        return [one for one in self.places if one.state <= CLOSING]

    def _held(self, place: Entry, *, now: float) -> Held:
        number = None
        if place.claim.queues and place.state is WAITING:
            number = 1 + self._waiting_before(place)
        # Ask again at least once per admission window. If the claim that was admitted is dead,
        # nothing else reports that its weight is free again.
        ends = [now + ADMISSION_WINDOW_SECONDS, *(one.until for one in self._inside())]
        return Held(self._holders(now=now), number, min(ends) - now, self._closing(now=now))

    def _waiting_before(self, place: Entry) -> int:
        return sum(one.state is WAITING and one.arrived < place.arrived for one in self.places)

    def _holders(self, *, now: float) -> tuple[Holder, ...]:
        return tuple(self._holder(one, now=now) for one in self._holding())

    def _holding(self) -> list[Entry]:
        return [one for one in self.places if one.state in (HOLDING, ADMITTED)]

    def _closing(self, *, now: float) -> tuple[Closing, ...]:
        return tuple(
            Closing(Owner.from_text(one.claim.owner), one.weight, one.until - now)
            for one in self.places
            if one.state is CLOSING
        )

    def _holder(self, place: Entry, *, now: float) -> Holder:
        return Holder(
            owner=Owner.from_text(place.claim.owner),
            token=place.token,
            weight=place.weight,
            age=max(0.0, now - place.since),
            remaining=max(0.0, place.until - now),
        )


def _min_hold_end(place: Entry, *, now: float) -> float:
    """Return the time until which min_hold keeps the name closed, even if the hold has ended."""
    # If `since` is in the future, the store's clock was set back, and min_hold counts from now.
    return min(place.since, now) + place.claim.min_hold


def capacity_conflict(claim: Claim, *, in_use: int) -> ConfigurationError:
    """Return the error for a claim whose name is in use with another capacity."""
    return ConfigurationError(
        f"{claim.name!r} is in use {_capacity_text(in_use)}; "
        f"it cannot be used {_capacity_text(claim.capacity)} before all have left",
        name=claim.name,
    )


def _capacity_text(capacity: int) -> str:
    if capacity == ALL:
        return "as a read-write lock"
    return "as a lock (capacity 1)" if capacity == 1 else f"with capacity {capacity}"


# Tombstones for claims that have ended while a request of the claim may still be under way. The
# caller passes in the time.
#
# If all requests of a client pass through one object, that object can keep the client's tombstones.


class Tombstones:
    """Remembers for a while which claims have ended, so that late requests for them get nothing."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def bury(self, claim: Claim, *, now: float) -> None:
        """Record that the claim has ended, and drop expired tombstones."""
        self._until[claim.id] = now + max(claim.ttl, TOMBSTONE_SECONDS)
        while self._until[oldest := next(iter(self._until))] <= now:
            del self._until[oldest]

    def has(self, claim: Claim, *, now: float) -> bool:
        """Return whether the claim has a tombstone that has not expired."""
        return self._until.get(claim.id, 0.0) > now
