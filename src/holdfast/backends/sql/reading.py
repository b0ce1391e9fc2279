"""Reading of a name what can decide: one question as a rule, a second where the line is long."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from holdfast.backends.sql.dialect import Seen
from holdfast.backends.sql.partial import PartialDoor

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.backends.sql.dialect import Dialect
    from holdfast.backends.sql.steps import Ask, Rows, Steps

FRONT = 2
"""How many of a line are read at first: the next, and the one who closes the door."""

SHORT = 6
"""So many are read for one who comes: of a shorter line it then knows the end, and who stands
before it, without asking for them."""

GROWTH = 8

NOBODY = Seen(now=0.0, capacity=0, token=0, rows=())


class Needs(NamedTuple):
    """What a verb has to know of a long line beside its front.

    The place of a claim that may wait, which is looked for where it is said to have arrived;
    whether the claim comes to the end if it has no place, and is told its number; and whether
    a tombstone may be added at the end.
    """

    claim_id: str = ""
    arrived: int | None = None
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
    claim_id, arrived, joins, buries = needs
    is_missing = bool(claim_id) and door.find(claim_id) is None
    wanted: list[tuple[Ask, Callable[[Rows], None]]] = []
    if parties := door.parties:
        # Whoever shares a hold passes wherever it stands.
        wanted.append((dialect.fellows(key, parties), door.add))
    if is_missing:
        wanted.append((dialect.own(key, claim_id, arrived), door.add))
    if is_missing and joins and arrived is not None:
        # It stands there, most likely.
        wanted.append((dialect.count_before(key, arrived), partial(door.count, arrived)))
    if buries or (is_missing and joins and arrived is None):
        wanted.append((dialect.end_of_line(key), door.end))
    if wanted:
        answers = yield [ask for ask, _ in wanted]
        for (_, know), rows in zip(wanted, answers, strict=True):
            know(rows)
    place = door.find(claim_id) if claim_id else None
    if place is None and is_missing and arrived is not None:
        # It was turned away, or came back without our knowing where to.
        yield from _read_on(dialect, key, door, needs._replace(arrived=None))
    elif place is not None and joins and door.lacks_number_of(place):
        [rows] = yield [dialect.count_before(key, place.arrived)]
        door.count(place.arrived, rows)
