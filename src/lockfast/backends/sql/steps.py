"""Steps: generators that yield what they ask of the store and are sent the rows.

So the same step serves a worker of SQLite's, a blocking connection and an asyncio one. What
is yielded together may be sent together: on a network each yield is one round trip.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")

Rows: TypeAlias = Sequence[tuple[Any, ...]]


class Ask(NamedTuple):
    """One statement, and what it is given. Its answer is its rows."""

    statement: str
    values: Sequence[object] = ()


class AskMany(NamedTuple):
    """One statement that writes, for each of several rows. Its answer is empty."""

    statement: str
    rows: Sequence[Sequence[object]]


Asked: TypeAlias = Sequence[Ask | AskMany]

Steps: TypeAlias = Generator[Asked, Sequence[Rows], T]
"""A driver sends one answer for each that was asked, in their order, and gets a T at the end.

Of what is asked together nothing depends on the rows that an AskMany beside it writes. An error
of the store ends the steps: the driver raises it to its own caller, and not here.
"""


def alone(ask: Ask) -> Steps[Rows]:
    """Ask one thing, and return its rows."""
    [rows] = yield [ask]
    return rows


def side_by_side(many: Sequence[Steps[T]]) -> Steps[list[T]]:
    """Do steps that know nothing of each other: what they ask next goes together.

    So a batch takes as many round trips as the longest of them. Their locks are asked for in
    the order given; whoever locks several names sorts them, or two will wait for each other.
    """
    if len(many) == 1:
        return [(yield from many[0])]
    ended: dict[int, T] = {}
    under_way: list[tuple[int, Sequence[Rows] | None]] = [(n, None) for n in range(len(many))]
    while under_way:
        together, sizes = list[Ask | AskMany](), list[tuple[int, int]]()
        for number, answers in under_way:
            try:
                asked = many[number].send(answers)  # type: ignore[arg-type]  # None begins them
            except StopIteration as end:
                ended[number] = end.value
            else:
                sizes.append((number, len(asked)))
                together.extend(asked)
        rows = iter((yield from _merged(together)) if together else ())
        under_way = [(number, list(islice(rows, size))) for number, size in sizes]
    return [ended[number] for number in range(len(many))]


def _merged(together: list[Ask | AskMany]) -> Steps[Sequence[Rows]]:
    """Ask what many ask, each writing statement but once for the rows of them all."""
    rows: dict[str, list[Sequence[object]]] = {}
    for one in together:
        if isinstance(one, AskMany):
            rows.setdefault(one.statement, []).extend(one.rows)
    if not rows:
        return (yield together)
    asks = [one for one in together if isinstance(one, Ask)]
    answers = iter((yield [*asks, *(AskMany(*one) for one in rows.items())]))
    return [() if isinstance(one, AskMany) else next(answers) for one in together]
