"""Reading of a name what can decide: one question as a rule, a second where the line is long."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from lockfast.backends.sql.dialect import Seen
from lockfast.backends.sql.partial import PartialDoor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockfast.backends.sql.dialect import Dialect
    from lockfast.backends.sql.steps import Ask, Rows, Steps

FRONT = 2
"""How many of a line are read at first: the next, and the one who closes the door."""

SHORT = 6
"""So many are read for one who comes: of a shorter line it then knows the end, and who stands
before it, without asking for them."""

GROWTH = 8

NOBODY = Seen(now=0.0, capacity=0, token=0, rows=())


class Sought(NamedTuple):
    """A claim that may wait, and where it is said to have arrived."""

    claim_id: str
    arrived: int | None


class Needs(NamedTuple):
    """What a verb has to know of a long line beside its front.

    The places of the claims that are sought; whether these come to the end if they have no place,
    and are told their number; and whether a tombstone may be added at the end.
    """

    sought: Sequence[Sought] = ()
    joins: bool = False
    buries: bool = False


def read(
    dialect: Dialect, key: bytes, needs: Needs, *, front: int | None = FRONT, locked: bool = True
) -> Steps[PartialDoor]:
    """Return the door with those inside, so many of the line, and what is needed of the rest.

    Of a name without a record there is nothing to lock: it is made for whoever may come, and
    to all others it is a door where nobody is.
    """
    asked = dialect.door(key, front=front, locked=locked)
    seen = dialect.seen((yield asked))
    while seen is None and locked and (needs.joins or needs.buries):
        made = dialect.make(key)
        answers = yield (*made, *asked)
        seen = dialect.seen(answers[len(made) :])
    door = PartialDoor(key, seen or NOBODY, front=front)
    if not door.is_whole:
        yield from _read_on(dialect, key, door, needs)
    return door


def _read_on(dialect: Dialect, key: bytes, door: PartialDoor, needs: Needs) -> Steps[None]:
    joins, buries = needs.joins, needs.buries
    missing = [one for one in needs.sought if door.find(one.claim_id) is None]
    placed = [(one.claim_id, one.arrived) for one in missing if one.arrived is not None]
    anywhere = [one.claim_id for one in missing if one.arrived is None]
    wanted: list[tuple[Ask, Callable[[Rows], None]]] = []
    if parties := door.parties:
        # Whoever shares a hold passes wherever it stands.
        wanted.append((dialect.fellows(key, parties), door.add))
    for claim_id, arrived in placed:
        wanted.append((dialect.own(key, claim_id, arrived), door.add))
        if joins:
            # It stands there, most likely.
            wanted.append((dialect.count_before(key, arrived), partial(door.count, arrived)))
    if anywhere:
        wanted.append((dialect.own_among(key, anywhere), door.add))
    if buries or (joins and anywhere):
        wanted.append((dialect.end_of_line(key), door.end))
    if wanted:
        answers = yield [ask for ask, _ in wanted]
        for (_, know), rows in zip(wanted, answers, strict=True):
            know(rows)
    gone = [claim_id for claim_id, _ in placed if door.find(claim_id) is None]
    if gone:
        # Turned away, or they came back without our knowing where to.
        sought = [Sought(claim_id, None) for claim_id in gone]
        yield from _read_on(dialect, key, door, needs._replace(sought=sought))
    if joins:
        # Those too who stand elsewhere than they were said to.
        yield from _number(dialect, key, door, [one.claim_id for one in missing])


def _number(
    dialect: Dialect, key: bytes, door: PartialDoor, claim_ids: Sequence[str]
) -> Steps[None]:
    """Know the number in line of those who have a place."""
    places = [place for one in claim_ids if (place := door.find(one)) is not None]
    arrivals = [place.arrived for place in places if door.lacks_number_of(place)]
    if arrivals:
        answers = yield [dialect.count_before(key, one) for one in arrivals]
        for arrived, rows in zip(arrivals, answers, strict=True):
            door.count(arrived, rows)
