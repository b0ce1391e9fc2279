"""From what was recorded to what is wrong with it; each question has a file of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.challenge.checker.crashes import crashes
from lockfast.challenge.checker.exclusion import faults_of_exclusion
from lockfast.challenge.checker.left_behind import left_behind
from lockfast.challenge.checker.lost_updates import lost_updates
from lockfast.challenge.checker.passing_over import passed_over
from lockfast.challenge.checker.renewing import not_renewed
from lockfast.challenge.checker.stalls import stalls
from lockfast.challenge.checker.telling import told_late
from lockfast.challenge.history import NotAHistory, operations
from lockfast.challenge.outcome import Finding

if TYPE_CHECKING:
    from lockfast.challenge.recorded import Recorded


def judge(recorded: Recorded) -> list[Finding]:
    """Return what is wrong, and what the store's page says may happen, by time.

    Nothing is found where nothing happened: that a lock was used at all is not asked here.
    """
    return sorted(
        [
            *_of_the_history(recorded),
            *lost_updates(recorded),
            *left_behind(recorded),
            *crashes(recorded),
        ],
        key=lambda finding: finding.at,
    )


def _of_the_history(recorded: Recorded) -> list[Finding]:
    try:
        done = operations(recorded.events)
    except NotAHistory as error:
        # The fault of a client or of its diary: nothing that was concluded from it would hold.
        at = recorded.events[0].at if recorded.events else 0.0
        return [Finding("not a history", at, f"{error}; nothing else of it was judged")]
    return [
        *faults_of_exclusion(recorded, done),
        *told_late(recorded, done),
        *stalls(recorded, done),
        *passed_over(recorded, done),
        *not_renewed(recorded, done),
    ]
