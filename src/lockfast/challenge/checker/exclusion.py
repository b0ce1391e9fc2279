"""Whether more were inside than the door lets in, and whether tokens grew."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from lockfast.challenge.checker.examples import Examples
from lockfast.challenge.checker.forgiving import reason_to_forgive
from lockfast.challenge.checker.holds import definite_holds
from lockfast.challenge.checker.search import is_possible, settled, steps
from lockfast.challenge.checker.shrinking import smallest
from lockfast.challenge.checker.sweep import violations
from lockfast.challenge.outcome import Finding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.challenge.checker.holds import Hold
    from lockfast.challenge.checker.sweep import Violation
    from lockfast.challenge.history import Operation
    from lockfast.challenge.recorded import Recorded

SHOWN = 20
"""So many of each kind are proven and shown; nobody reads the thousands of what is no lock."""


def faults_of_exclusion(recorded: Recorded, done: Sequence[Operation]) -> list[Finding]:
    """Return every overlap and every token that did not grow, the first of them with a proof."""
    examples = Examples(recorded.events)
    counted: Counter[str] = Counter()
    forgotten: dict[Hold, str] = {}
    found = []
    for violation in violations(definite_holds(done)):
        counted[violation.kind] += 1
        is_shown = counted[violation.kind] <= SHOWN
        shown = proven(violation) if is_shown else violation
        if shown is None:
            continue
        reason = reason_to_forgive(recorded, shown)
        if violation.kind == "token":
            # A store that forgot a hold is behind with its tokens for many grants, not for a
            # while: whatever else is below the same hold has the same cause.
            reason = reason or forgotten.get(violation.holds[0], "")
            forgotten[violation.holds[0]] = reason
        found.append(
            Finding(
                violation.kind,
                violation.at,
                f"{shown}, as documented: {reason}" if reason else str(shown),
                clients=tuple(dict.fromkeys(hold.client for hold in shown.holds)),
                is_documented=bool(reason),
                example=examples.of(shown.holds) if is_shown else (),
            )
        )
    return found


def proven(violation: Violation) -> Violation | None:
    """Return it with no hold that could be spared, or None where the search finds an order.

    It is searched among those holds alone: what is impossible stays so with others beside it.
    """

    def is_wrong(part: Sequence[Hold]) -> bool:
        return any(one.kind == violation.kind for one in violations(part))

    holds = smallest(violation.holds, is_wrong)
    if is_possible(settled(steps(holds))):
        return None
    return replace(violation, holds=tuple(holds))
