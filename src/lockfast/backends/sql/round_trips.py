"""Steps as a transaction: what goes into which round trip. Nothing here waits.

Writes need no answer. So they are kept until something is asked for, or until the steps end,
and then go with it: reading a door and writing it takes two round trips, with the beginning
and the commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from lockfast.backends.sql.steps import Ask, AskMany

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.backends.sql.steps import Rows, Steps

T = TypeVar("T")


class Framing(NamedTuple):
    """How a store says that a transaction begins and ends.

    `opening` and `closing` make one of what goes in a single round trip; a store where that is
    one in any case has neither. With `frames_one` they also stand around a single statement,
    which otherwise is a transaction by itself.
    """

    begin: Sequence[Ask]
    commit: Sequence[Ask]
    roll_back: Sequence[Ask]
    opening: Sequence[Ask] = ()
    closing: Sequence[Ask] = ()
    frames_one: bool = False


class RoundTrips(Generic[T]):
    """One run of the steps, between what begins a transaction and what commits it.

    Given neither, the steps only look, and each statement stands for itself.
    """

    def __init__(self, steps: Steps[T], *, begin: Sequence[Ask], commit: Sequence[Ask]) -> None:
        self._steps = steps
        self._begin = begin
        self._commit = commit
        self._kept: list[Ask] = []
        self._is_asked: list[bool] = []
        self._skipped = 0
        self._answers: list[Rows] | None = None
        self._is_over = False
        self.has_begun: bool = False
        self.is_committing: bool = False
        """Whether what was sent last may have been committed."""
        self.outcome: T

    def next(self) -> list[Ask] | None:
        """Return what to send next; None once all is done."""
        while not self._is_over:
            try:
                asked = self._steps.send(self._answers)  # type: ignore[arg-type]  # None begins
            except StopIteration as end:
                self.outcome = end.value
                self._is_over = True
                return self._last()
            self._is_asked = [isinstance(one, Ask) for one in asked]
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
            self._answers = [()] * len(asked)
        return None

    def _last(self) -> list[Ask] | None:
        if not self._commit or not (self.has_begun or self._kept):
            return None
        self.is_committing = True
        return self._with_beginning(list(self._commit))

    def _with_beginning(self, requests: list[Ask]) -> list[Ask]:
        beginning = () if self.has_begun else self._begin
        kept, self._kept = self._kept, []
        self.has_begun = bool(self._begin)
        return [*beginning, *kept, *requests]

    def answered(self, answers: Sequence[Rows]) -> None:
        """Take the answers to what was sent last."""
        if not self._is_over:
            rows = iter(answers[self._skipped :])
            self._answers = [next(rows) if is_asked else () for is_asked in self._is_asked]

    def close(self) -> None:
        """Let go of the steps, wherever they are."""
        self._steps.close()
