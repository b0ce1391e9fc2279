"""The verbs of the backend protocol as steps: read the door, let it decide, write what changed.

Each of these belongs in one transaction, unless it says that it only looks. What they decide
is in core/door.py; they are done anew, from the beginning, if the store rolls back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from lockfast.backends.sql.changes import Change
from lockfast.backends.sql.passing import Arrival, Arrived, Withdrawal
from lockfast.backends.sql.reading import FRONT, GROWTH, SHORT, Needs, Sought, read
from lockfast.backends.sql.steps import side_by_side
from lockfast.core.naming import name_of, storage_key
from lockfast.core.place import WAITING
from lockfast.model import Grant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockfast.backends.sql.dialect import Dialect
    from lockfast.backends.sql.partial import PartialDoor
    from lockfast.backends.sql.passing import Outcome, Passage
    from lockfast.backends.sql.steps import Steps
    from lockfast.core.place import Place
    from lockfast.model import Claim, Holder, Inspection, Renewal

T = TypeVar("T")

NOTHING = Needs()


class Decided(NamedTuple, Generic[T]):
    """The answer of a verb, and the places whose clients should be rung once it counts."""

    answer: T
    woken: Sequence[Place]


class Verbs:
    """The verbs at the doors of one namespace."""

    def __init__(self, dialect: Dialect, *, namespace: str) -> None:
        self._dialect = dialect
        self._namespace = namespace

    # -- what changes a door -----------------------------------------------------------

    def arrive(self, claim: Claim, *, bell: str, arrived: int | None = None) -> Steps[Arrived]:
        """See Door.arrive; `arrived` says where the claim stands, if the client knows.

        The door's `woken` are to be rung.
        """
        decided = yield from self.together([Arrival(claim, bell, arrived)])
        [outcome] = decided.answer
        if not isinstance(outcome, Arrived):
            raise outcome or AssertionError("an arrival has an answer")
        return outcome

    def together(self, passages: Sequence[Passage]) -> Steps[Decided[list[Outcome]]]:
        """Let several claims pass the door of one name, in their order."""
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
                    buries=any(one.tombstone for one in withdrawals),
                ),
                # Of the front so many may leave, and the next has to be known.
                front=max(SHORT if comes_new else FRONT, FRONT + len(withdrawals) - 1),
            )
        )

    def renew(self, claims: Sequence[Claim]) -> Steps[Decided[list[Renewal]]]:
        """See Door.renew; claims at one name pass its door together, names go side by side."""
        if len(claims) == 1:
            return (yield from self._renew_at(self._key(claims[0].name), claims))
        keys = [self._key(claim.name) for claim in claims]
        at: dict[bytes, list[Claim]] = {}
        for key, claim in zip(keys, claims, strict=True):
            at.setdefault(key, []).append(claim)
        in_order = sorted(at)  # as they are locked
        decided = yield from side_by_side([self._renew_at(key, at[key]) for key in in_order])
        outcomes = {key: iter(one.answer) for key, one in zip(in_order, decided, strict=True)}
        return Decided([next(outcomes[key]) for key in keys], _woken(decided))

    def _renew_at(self, key: bytes, claims: Sequence[Claim]) -> Steps[Decided[list[Renewal]]]:
        return self._decide(
            key, lambda door: [door.renew(one.id, now=door.now, ttl=one.ttl) for one in claims]
        )

    def hand_over(self, claim: Claim) -> Steps[Decided[Renewal]]:
        """See Door.hand_over."""
        return self._decide(self._key(claim.name), lambda door: door.hand_over(claim, now=door.now))

    def release(
        self, claim: Claim, *, at: float | None = None, tombstone: bool = False
    ) -> Steps[Decided[bool]]:
        """See Door.release; it was still held if it was so at that time of the store's."""
        return self._decide(
            self._key(claim.name),
            lambda door: door.release(
                claim.id, now=door.now if at is None else at, tombstone=tombstone
            ),
            needs=Needs(buries=tombstone),
        )

    def withdraw(
        self, claim: Claim, *, arrived: int | None = None, tombstone: bool = False
    ) -> Steps[Decided[None]]:
        """See Door.withdraw; `arrived` as for `arrive`."""
        decided = yield from self.together([Withdrawal(claim, arrived, tombstone)])
        return Decided(None, decided.woken)

    def break_(
        self, name: str, *, token: int | None = None, party: str | None = None
    ) -> Steps[Decided[tuple[Holder, ...]]]:
        """See Door.break_."""
        return self._decide(
            self._key(name),
            lambda door: door.break_(now=door.now, token=token, party=party),
            needs=Needs(buries=True),
        )

    def forget(self, clients: Sequence[str]) -> Steps[Decided[None]]:
        """See Door.forget, at every door where the clients stand."""
        [rows] = yield [self._dialect.names_of(clients)]
        decided = yield from side_by_side([self._forget_at(key, clients) for (key,) in rows])
        return Decided(None, _woken(decided))

    def _forget_at(self, key: bytes, clients: Sequence[str]) -> Steps[Decided[None]]:
        return self._decide(key, lambda door: door.forget(clients, now=door.now), front=None)

    # -- what only looks ---------------------------------------------------------------

    def still_waiting(self, claim: Claim, *, arrived: int) -> Steps[Arrived | None]:
        """Return the answer to a claim whose turn has not come, None if it has to arrive."""
        needs = Needs([Sought(claim.id, arrived)], joins=True)
        door = yield from read(self._dialect, self._key(claim.name), needs, locked=False)
        place = door.find(claim.id)
        if place is None or place.standing is not WAITING:
            return None
        answer = door.arrive(claim, now=door.now)
        if isinstance(answer, Grant) or door.changed or door.dropped or door.fell_short:
            return None
        return Arrived(answer, door)

    def inspect(self, name: str) -> Steps[Inspection]:
        """Return what the store says of the name, with the whole line."""
        key = self._key(name)
        door = yield from read(self._dialect, key, NOTHING, front=None, locked=False)
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
        needs: Needs = NOTHING,
        front: int | None = FRONT,
    ) -> Steps[Decided[T]]:
        return self._through(
            key, lambda door: Decided(act(door), door.woken), needs=needs, front=front
        )

    def _through(
        self,
        key: bytes,
        act: Callable[[PartialDoor], T],
        *,
        needs: Needs,
        front: int | None = FRONT,
    ) -> Steps[T]:
        while True:
            door = yield from read(self._dialect, key, needs, front=front)
            answer = act(door)
            if not door.fell_short or front is None:
                break
            front *= GROWTH
        changes = self._dialect.save(Change(key, door))
        if changes:
            yield changes
        return answer

    def _key(self, name: str) -> bytes:
        return storage_key(self._namespace, name)


def _woken(decided: Sequence[Decided[T]]) -> list[Place]:
    return [place for one in decided for place in one.woken]
