"""Steps: generators that yield queries and are sent the resulting rows.

So the same steps serve the SQLite worker, a blocking connection and an asyncio connection. Queries
that are yielded together may be sent together, so on a network each yield is one round trip.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import islice
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from lockfast.errors import BackendUnavailable, LockError

# What a pool needs from a connection, whatever its store.


class PooledConnection(Protocol):
    """One connection, used by one request at a time; the object exists before it connects."""

    is_new: bool
    """Whether the connection was never connected; it is connected only once."""
    used_at: float
    is_borrowed: bool
    """Whether the connection goes back to the application after each request."""

    @property
    def is_open(self) -> bool:
        """Whether the connection is usable, as far as this side knows."""
        ...

    def is_sound(self) -> bool:
        """Return false if the server has closed the connection; sends nothing to find out."""
        ...

    def close(self) -> None:
        """Close the connection without waiting."""
        ...

    def abandon_in_child(self) -> None:
        """Abandon the parent's connection in a forked child, without sending anything on it."""
        ...


def none_free(*, where: str) -> LockError:
    """Return the error for a request that got no connection, so that nothing was sent."""
    return BackendUnavailable(f"{where}: no connection was free in time")


T = TypeVar("T")

Rows: TypeAlias = Sequence[tuple[Any, ...]]


class Query(NamedTuple):
    """One statement with its values. Its answer is its rows."""

    statement: str
    values: Sequence[object] = ()


class QueryMany(NamedTuple):
    """One writing statement, run for each of several rows. Its answer is empty."""

    statement: str
    rows: Sequence[Sequence[object]]


Queries: TypeAlias = Sequence[Query | QueryMany]

Steps: TypeAlias = Generator[Queries, Sequence[Rows], T]
"""A generator that yields queries. Its runner sends in one answer per query, in order; the
generator returns a T.

Queries that are yielded together must not read rows that a QueryMany among them writes. An error of
the store ends the steps, and the runner raises it to its own caller, not into the generator.
"""


def alone(ask: Query) -> Steps[Rows]:
    """Run one query, and return its rows."""
    [rows] = yield [ask]
    return rows


def side_by_side(many: Sequence[Steps[T]]) -> Steps[list[T]]:
    """Run independent steps side by side; their queries share round trips.

    The number of round trips is that of the longest steps. Locks are requested in the order given;
    a caller that locks several names has to sort them, or two transactions may deadlock.
    """
    if len(many) == 1:
        return [(yield from many[0])]
    ended: dict[int, T] = {}
    under_way: list[tuple[int, Sequence[Rows] | None]] = [(n, None) for n in range(len(many))]
    while under_way:
        together, sizes = list[Query | QueryMany](), list[tuple[int, int]]()
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


def _merged(together: list[Query | QueryMany]) -> Steps[Sequence[Rows]]:
    """Yield the queries of many steps; each writing statement is yielded once, with all rows."""
    rows: dict[str, list[Sequence[object]]] = {}
    for one in together:
        if isinstance(one, QueryMany):
            rows.setdefault(one.statement, []).extend(one.rows)
    if not rows:
        return (yield together)
    asks = [one for one in together if isinstance(one, Query)]
    answers = iter((yield [*asks, *(QueryMany(*one) for one in rows.items())]))
    return [() if isinstance(one, QueryMany) else next(answers) for one in together]


# Decides which queries of a transaction go into which round trip. No I/O.
#
# Writes need no answer. So a write is held back, and sent along with the next read, or with the
# COMMIT when the steps end. Reading and writing a door thus takes two round trips, including BEGIN
# and COMMIT.


class Framing(NamedTuple):
    """The statements with which a store begins and ends a transaction.

    `opening` and `closing` enclose the statements of a single round trip, to make them one
    transaction; both are empty for a store where a round trip is one transaction anyway. With
    `frames_one` they also enclose a single statement, which otherwise is its own transaction.
    """

    begin: Sequence[Query]
    commit: Sequence[Query]
    roll_back: Sequence[Query]
    opening: Sequence[Query] = ()
    closing: Sequence[Query] = ()
    frames_one: bool = False


class RoundTrips(Generic[T]):
    """One run of the steps, between the statements that begin and commit a transaction.

    If `begin` and `commit` are empty, no transaction encloses the steps, because they only read or
    only create the tables.
    """

    def __init__(self, steps: Steps[T], *, begin: Sequence[Query], commit: Sequence[Query]) -> None:
        self._steps = steps
        self._begin = begin
        self._commit = commit
        self._kept: list[Query] = []
        self._is_asked: list[bool] = []
        self._skipped = 0
        self._answers: list[Rows] | None = None
        self._is_over = False
        self.has_begun: bool = False
        self.is_committing: bool = False
        """Whether the last request may have been committed."""
        self.outcome: T

    def next(self) -> list[Query] | None:
        """Return the queries to send next; None once the steps and the transaction have ended."""
        while not self._is_over:
            try:
                asked = self._steps.send(self._answers)  # type: ignore[arg-type]  # None begins
            except StopIteration as end:
                self.outcome = end.value
                self._is_over = True
                return self._last()
            self._is_asked = [isinstance(one, Query) for one in asked]
            wanted = [one for one in asked if isinstance(one, Query)]
            kept = [
                Query(one.statement, row)
                for one in asked
                if isinstance(one, QueryMany)
                for row in one.rows
            ]
            if wanted:
                requests = self._with_beginning([*kept, *wanted])
                self._skipped = len(requests) - len(wanted)
                return requests
            self._kept += kept
            self._answers = [()] * len(asked)
        return None

    def _last(self) -> list[Query] | None:
        if not self._commit or not (self.has_begun or self._kept):
            return None
        self.is_committing = True
        return self._with_beginning(list(self._commit))

    def _with_beginning(self, requests: list[Query]) -> list[Query]:
        beginning = () if self.has_begun else self._begin
        kept, self._kept = self._kept, []
        self.has_begun = bool(self._begin)
        return [*beginning, *kept, *requests]

    def answered(self, answers: Sequence[Rows]) -> None:
        """Accept the answers to the last queries."""
        if not self._is_over:
            rows = iter(answers[self._skipped :])
            self._answers = [next(rows) if is_asked else () for is_asked in self._is_asked]

    def close(self) -> None:
        """Close the generator of the steps, even if it has not ended."""
        self._steps.close()
