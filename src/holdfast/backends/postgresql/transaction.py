"""Steps as a transaction: what goes into which round trip. Nothing here waits.

Writes need no answer. So they are kept until something is asked for, or until the steps end,
and then go with it: reading a door and writing it takes two round trips, with the beginning
and the commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from holdfast.backends.sql.steps import Ask, AskMany

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.backends.sql.steps import Rows, Steps

T = TypeVar("T")

LONGEST_PAUSE = 2.0
"""A client that stands still in its transaction for longer loses it. Otherwise the name that it
has locked would be closed to all until it goes on: its machine may sleep."""

# Every read that decides comes in a statement after the one that locks, and has to see what
# others wrote until then. The server's default may be another isolation.
BEGIN = Ask("BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE")
# And every read goes by an index: the planner, which knows nothing of a young table, may think
# that a line of thousands is short, and keep that plan.
SETTINGS = Ask(
    "SELECT set_config('idle_in_transaction_session_timeout', $1, true),"
    " set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)",
    (f"{LONGEST_PAUSE * 1000:.0f}",),
)
COMMIT = Ask("COMMIT")


class Transaction(Generic[T]):
    """One run of the steps."""

    def __init__(self, steps: Steps[T]) -> None:
        self._steps = steps
        self._kept: list[Ask] = []
        self._asked: list[bool] = []
        self._skipped = 0
        self._answers: Sequence[Rows] | None = None
        self._is_over = False
        self.has_begun = False
        self.outcome: T

    def requests(self) -> list[Ask] | None:
        """Return what to send next; None once it is committed."""
        while not self._is_over:
            try:
                asked = self._steps.send(self._answers)  # type: ignore[arg-type]  # None begins them
            except StopIteration as end:
                self.outcome = end.value
                self._is_over = True
                return self._with_beginning([COMMIT]) if self.has_begun or self._kept else None
            self._asked = [isinstance(one, Ask) for one in asked]
            wanted = [one for one in asked if isinstance(one, Ask)]
            kept = [
                Ask(one.statement, row)
                for one in asked
                if isinstance(one, AskMany)
                for row in one.rows
            ]
            if wanted:
                requests = self._with_beginning([*kept, *wanted])
                self._skipped = len(requests) - len(wanted)
                return requests
            self._kept += kept
            self._answers = [[] for _ in asked]
        return None

    def _with_beginning(self, requests: list[Ask]) -> list[Ask]:
        beginning = [] if self.has_begun else [BEGIN, SETTINGS]
        kept, self._kept = self._kept, []
        self.has_begun = True
        return [*beginning, *kept, *requests]

    def answered(self, answers: Sequence[Rows]) -> None:
        """Take the answers to what was sent last."""
        if self._is_over:
            self.has_begun = False
            return
        rows = iter(answers[self._skipped :])
        self._answers = [next(rows) if is_asked else [] for is_asked in self._asked]
