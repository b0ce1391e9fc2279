"""The verbs of the port as steps, which read the door, decide, and write the changes.

Each verb runs in one transaction, unless it only reads. core/door.py makes the decisions. If the
store rolls back, the steps are repeated from the start.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from lockfast.backends.sql.dialect import SeenDoor
from lockfast.backends.sql.door_rows import Arrival, Arrived, Change, PartialDoor, Withdrawal
from lockfast.backends.sql.steps import side_by_side
from lockfast.core.door import WAITING
from lockfast.core.naming import name_of, storage_key
from lockfast.model import Grant

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

    from lockfast.backends.sql.dialect import Dialect
    from lockfast.backends.sql.door_rows import Outcome, Passage
    from lockfast.backends.sql.steps import Queries, Query, Rows, Steps
    from lockfast.core.door import Entry
    from lockfast.model import Claim, Holder, Inspection, Renewal

# Reads the part of a door that a decision needs, usually in one round trip, and in two if the line
# is long.

FRONT_ROWS = 2
"""How many waiting entries are read at first: the next entry to be admitted, and the entry behind
it, at which admission ends."""

SHORT_LINE_ROWS = 6
"""How many waiting entries are read for a new claim. If the line is shorter, these entries show the
whole line, without another query."""

READ_GROWTH = 8

NOBODY_SEEN = SeenDoor(now=0.0, capacity=0, token=0, rows=())


class Sought(NamedTuple):
    """A claim that may be waiting, and its arrival as far as the client knows."""

    claim_id: str
    arrived: int | None


class Needs(NamedTuple):
    """What a verb needs from a long line besides its front.

    `sought` are the claims whose entries the verb needs. With `joins`, a sought claim without an
    entry is put at the end of the line, and each sought claim gets its position. With
    `adds_tombstone`, a tombstone may be added at the end.
    """

    sought: Sequence[Sought] = ()
    joins: bool = False
    adds_tombstone: bool = False


def read(
    dialect: Dialect,
    key: bytes,
    needs: Needs,
    *,
    front: int | None = FRONT_ROWS,
    locked: bool = True,
) -> Steps[PartialDoor]:
    """Return the door, read as far as the verb needs it.

    The result has the entries inside, the first `front` entries of the line, and from the rest of
    the line the entries that `needs` describes. A name without a record has no row to lock. So
    verbs that may add an entry create the record; for all other verbs the door counts as empty.
    """
    asked = dialect.door(key, front=front, locked=locked)
    seen = dialect.seen((yield asked))
    while seen is None and locked and (needs.joins or needs.adds_tombstone):
        made = dialect.make(key)
        answers = yield (*made, *asked)
        seen = dialect.seen(answers[len(made) :])
    door = PartialDoor(key, seen or NOBODY_SEEN, front=front)
    if not door.is_whole:
        yield from _read_on(dialect, key, door, needs)
    return door


def _read_on(dialect: Dialect, key: bytes, door: PartialDoor, needs: Needs) -> Steps[None]:
    joins, adds_tombstone = needs.joins, needs.adds_tombstone
    missing = [one for one in needs.sought if door.find(one.claim_id) is None]
    placed = [(one.claim_id, one.arrived) for one in missing if one.arrived is not None]
    anywhere = [one.claim_id for one in missing if one.arrived is None]
    wanted: list[tuple[Query, Callable[[Rows], None]]] = []
    if parties := door.parties:
        # Read the claims that may share a hold, because they are admitted wherever they are in
        # line.
        wanted.append((dialect.same_owner(key, parties), door.add))
    for claim_id, arrived in placed:
        wanted.append((dialect.own(key, claim_id, arrived), door.add))
        if joins:
            # Send the count along, because the entry is most likely still there.
            wanted.append((dialect.count_before(key, arrived), partial(door.count, arrived)))
    if anywhere:
        wanted.append((dialect.own_among(key, anywhere), door.add))
    if adds_tombstone or (joins and anywhere):
        wanted.append((dialect.end_of_line(key), door.end))
    if wanted:
        answers = yield [ask for ask, _ in wanted]
        for (_, know), rows in zip(wanted, answers, strict=True):
            know(rows)
    gone = [claim_id for claim_id, _ in placed if door.find(claim_id) is None]
    if gone:
        # These claims were turned away, or rejoined the line at an arrival that the client does not
        # know.
        sought = [Sought(claim_id, None) for claim_id in gone]
        yield from _read_on(dialect, key, door, needs._replace(sought=sought))
    if joins:
        # `missing` includes claims whose arrival turned out to differ from the supposed one.
        yield from _number(dialect, key, door, [one.claim_id for one in missing])


def _number(
    dialect: Dialect, key: bytes, door: PartialDoor, claim_ids: Sequence[str]
) -> Steps[None]:
    """Read the position in line of each sought claim that has an entry."""
    places = [place for one in claim_ids if (place := door.find(one)) is not None]
    arrivals = [place.arrived for place in places if door.lacks_number_of(place)]
    if arrivals:
        answers = yield [dialect.count_before(key, one) for one in arrivals]
        for arrived, rows in zip(arrivals, answers, strict=True):
            door.count(arrived, rows)


T = TypeVar("T")

# Wakes claims that a verb admitted or turned away.
#
# Where a server can notify, its store adds the notifications to the transaction. Claims of our own
# client are always woken in this process, after the transaction.

WATCH_PREFIX = "~"
"""Prefix of a message that asks for a later probe of the claim's line; the claim need not ask now.
"""


def new_channel() -> str:
    """Return a new, unique channel, to be stored as the `bell` of waiting claims."""
    return f"lockfast_{os.urandom(8).hex()}"


class Notifier:
    """Notifies other clients from within a transaction; this base class notifies nobody."""

    def after(
        self,
        steps: Callable[[], Steps[Decided[T]]],
        *,
        channel: str,
        here: Container[str],
        ours: list[str],
    ) -> Steps[T]:
        """Run the steps, and notify the other clients whose claims the steps woke; repeatable.

        `ours` receives the woken claims whose channel is ours or that wait `here`; the caller wakes
        these claims after the transaction.
        """
        decided = yield from steps()
        woken = decided.woken
        ours[:] = [one.claim.id for one in woken if one.bell == channel or one.claim.id in here]
        if woken and (asked := self.others(woken, channel=channel)):
            yield asked
        return decided.answer

    def others(self, woken: Sequence[Entry], *, channel: str) -> Queries:
        """Return the queries that notify all channels except `channel`."""
        del woken, channel
        return ()


NEEDS_NOTHING = Needs()


class Decided(NamedTuple, Generic[T]):
    """The answer of a verb, and the entries whose clients are to be woken after the commit."""

    answer: T
    woken: Sequence[Entry]


class Verbs:
    """The verbs at the doors of one namespace."""

    def __init__(self, dialect: Dialect, *, namespace: str) -> None:
        self._dialect = dialect
        self._namespace = namespace

    # -- verbs that change a door ------------------------------------------------------

    def arrive(self, claim: Claim, *, bell: str, arrived: int | None = None) -> Steps[Arrived]:
        """Run `Door.arrive`; `arrived` is the claim's arrival, if the client knows that.

        The caller has to wake the door's `woken` entries.
        """
        decided = yield from self.together([Arrival(claim, bell, arrived)])
        [outcome] = decided.answer
        if not isinstance(outcome, Arrived):
            raise outcome or AssertionError("an arrival has an answer")
        return outcome

    def together(self, passages: Sequence[Passage]) -> Steps[Decided[list[Outcome]]]:
        """Take several claims of one name through its door, in order."""
        arrivals = [one for one in passages if isinstance(one, Arrival)]
        withdrawals = [one for one in passages if isinstance(one, Withdrawal)]
        comes_new = any(one.arrived is None for one in arrivals)
        return (
            yield from self._decide(
                self._key(passages[0].claim.name),
                lambda door: [one.pass_through(door) for one in passages],
                needs=Needs(
                    [Sought(one.claim.id, one.arrived) for one in passages],
                    joins=bool(arrivals),
                    adds_tombstone=any(one.tombstone for one in withdrawals),
                ),
                # Each withdrawal may take an entry from the front, and the entry behind the
                # withdrawn ones has to be known.
                front=max(
                    SHORT_LINE_ROWS if comes_new else FRONT_ROWS, FRONT_ROWS + len(withdrawals) - 1
                ),
            )
        )

    def renew(self, claims: Sequence[Claim]) -> Steps[Decided[list[Renewal]]]:
        """Run `Door.renew` for each claim.

        The claims of one name are renewed together, and different names side by side.
        """
        if len(claims) == 1:
            return (yield from self._renew_at(self._key(claims[0].name), claims))
        keys = [self._key(claim.name) for claim in claims]
        at: dict[bytes, list[Claim]] = {}
        for key, claim in zip(keys, claims, strict=True):
            at.setdefault(key, []).append(claim)
        in_order = sorted(at)  # the order in which they are locked
        decided = yield from side_by_side([self._renew_at(key, at[key]) for key in in_order])
        outcomes = {key: iter(one.answer) for key, one in zip(in_order, decided, strict=True)}
        return Decided([next(outcomes[key]) for key in keys], _woken(decided))

    def _renew_at(self, key: bytes, claims: Sequence[Claim]) -> Steps[Decided[list[Renewal]]]:
        return self._decide(
            key, lambda door: [door.renew(one.id, now=door.now, ttl=one.ttl) for one in claims]
        )

    def hand_over(self, claim: Claim) -> Steps[Decided[Renewal]]:
        """Run `Door.hand_over`."""
        return self._decide(self._key(claim.name), lambda door: door.hand_over(claim, now=door.now))

    def release(
        self, claim: Claim, *, at: float | None = None, tombstone: bool = False
    ) -> Steps[Decided[bool]]:
        """Run `Door.release`; the hold is checked at the store time `at`, by default now."""
        return self._decide(
            self._key(claim.name),
            lambda door: door.release(
                claim.id, now=door.now if at is None else at, tombstone=tombstone
            ),
            needs=Needs(adds_tombstone=tombstone),
        )

    def withdraw(
        self, claim: Claim, *, arrived: int | None = None, tombstone: bool = False
    ) -> Steps[Decided[None]]:
        """Run `Door.withdraw`; `arrived` has the same meaning as in `arrive`."""
        decided = yield from self.together([Withdrawal(claim, arrived, tombstone)])
        return Decided(None, decided.woken)

    def break_(
        self, name: str, *, token: int | None = None, party: str | None = None
    ) -> Steps[Decided[tuple[Holder, ...]]]:
        """Run `Door.break_`."""
        return self._decide(
            self._key(name),
            lambda door: door.break_(now=door.now, token=token, party=party),
            needs=Needs(adds_tombstone=True),
        )

    def forget(self, clients: Sequence[str]) -> Steps[Decided[None]]:
        """Run `Door.forget` at every door where the clients have an entry."""
        [rows] = yield [self._dialect.names_of(clients)]
        decided = yield from side_by_side([self._forget_at(key, clients) for (key,) in rows])
        return Decided(None, _woken(decided))

    def _forget_at(self, key: bytes, clients: Sequence[str]) -> Steps[Decided[None]]:
        return self._decide(key, lambda door: door.forget(clients, now=door.now), front=None)

    # -- verbs that only read ----------------------------------------------------------

    def still_waiting(self, claim: Claim, *, arrived: int) -> Steps[Arrived | None]:
        """Return the answer to a claim that must wait on; None if it must arrive again."""
        needs = Needs([Sought(claim.id, arrived)], joins=True)
        door = yield from read(self._dialect, self._key(claim.name), needs, locked=False)
        place = door.find(claim.id)
        if place is None or place.state is not WAITING:
            return None
        answer = door.arrive(claim, now=door.now)
        if isinstance(answer, Grant) or door.changed or door.dropped or door.fell_short:
            return None
        return Arrived(answer, door)

    def inspect(self, name: str) -> Steps[Inspection]:
        """Return the state of the name, with the whole line."""
        key = self._key(name)
        door = yield from read(self._dialect, key, NEEDS_NOTHING, front=None, locked=False)
        door.settle(now=door.now)
        return door.inspect(name, now=door.now)

    def survey(self, prefix: str) -> Steps[list[Inspection]]:
        """Return all names in use that begin with the prefix, in byte order."""
        [rows] = yield [self._dialect.names_in_use(self._key(prefix))]
        seen = yield from side_by_side([self.inspect(name_of(key)) for (key,) in rows])
        return [one for one in seen if one.is_in_use]

    # -- through the door --------------------------------------------------------------

    def _decide(
        self,
        key: bytes,
        act: Callable[[PartialDoor], T],
        *,
        needs: Needs = NEEDS_NOTHING,
        front: int | None = FRONT_ROWS,
    ) -> Steps[Decided[T]]:
        while True:
            door = yield from read(self._dialect, key, needs, front=front)
            decided = Decided(act(door), door.woken)
            if not door.fell_short or front is None:
                break
            front *= READ_GROWTH
        changes = self._dialect.save(Change(key, door))
        if changes:
            yield changes
        return decided

    def _key(self, name: str) -> bytes:
        return storage_key(self._namespace, name)


def _woken(decided: Sequence[Decided[T]]) -> list[Entry]:
    return [place for one in decided for place in one.woken]
