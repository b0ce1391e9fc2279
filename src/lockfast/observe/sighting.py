"""One hold as it was seen in the store, at one look or at several: what that says of its ttl.

A store tells for how long a hold has lasted and how long it has still to run. Before the first
renewal the two add up to the ttl, exactly; a renewal is seen by the time left growing again.

But whoever was let in by a release has only a window at first, and its ttl from the first renewal
on. What adds up to that window is most likely one; its ttl is not known before it is renewed.
"""

from __future__ import annotations

import math
from typing import Final

from lockfast.core.door import WINDOW

NOT_YET_RENEWED: Final = 2.0
"""A lease is renewed when a third of its ttl is over. While twice as much is left, none was."""
OVERDUE: Final = 0.5
"""One that has less than half of its time left, and was not renewed before, nobody renews."""
SLACK: Final = 0.05
"""What rounding and the time of a look may make of a second."""


class Sighting:
    """What is known of one hold, after each look that saw it."""

    __slots__ = (
        "_until",
        "first_at",
        "in_window",
        "last_age",
        "last_at",
        "least_left",
        "most_left",
        "renewals",
        "ttl",
        "was_overdue",
    )

    def __init__(self, *, at: float, age: float, left: float | None) -> None:
        self.first_at: float = at
        self.last_at: float = at
        self.last_age: float = age
        self.renewals: int = 0
        self.ttl: float | None = None
        """None while it is not known: the store does not tell, or it was first seen later."""
        self.most_left: float = left or 0.0
        self.least_left: float | None = left
        self.was_overdue: bool = False
        self._until = None if left is None else at + left
        self.in_window: bool = False
        """Whether it has most likely only been let in, and has not renewed since."""
        if left is not None and left >= age * NOT_YET_RENEWED:
            self.in_window = abs(age + left - WINDOW) <= SLACK
            self.ttl = None if self.in_window else age + left

    def again(self, *, at: float, age: float, left: float | None) -> None:
        """Know that it is still there."""
        since, self.last_at, self.last_age = at - self.last_at, at, age
        if left is None or self._until is None:
            return
        if at + left > self._until + SLACK:
            self._until = at + left
            self._renewed(left, since=since)
        elif left < (self._known or at - self.first_at + left) * OVERDUE:
            self.was_overdue = True
            self._know_better()
        self.most_left = max(self.most_left, left)
        self.least_left = left if self.least_left is None else min(self.least_left, left)

    @property
    def _known(self) -> float | None:
        return WINDOW if self.in_window else self.ttl

    def _renewed(self, left: float, *, since: float) -> None:
        if self._known is None or left <= self._known + SLACK:
            self.renewals += 1
            self._know_better()
            return
        # It was let in by who had it before, for a short while, and is confirmed now: some time
        # since the last look. People write whole seconds.
        whole = math.ceil(left)
        self.ttl = float(whole) if whole <= left + since + SLACK else left
        self.in_window = False
        self.least_left = left

    def _know_better(self) -> None:
        """Know that what looked like a window is the ttl: nobody who was let in does this."""
        self.ttl, self.in_window = self._known, False

    @property
    def is_unrenewed(self) -> bool:
        """Whether it is known that nobody renews it."""
        return self.was_overdue and not self.renewals

    def ended(self, *, by: float) -> float:
        """Return how long it lasted at most, if a look at that time did not see it any more."""
        return self.last_age + by - self.last_at

    def has_run_out(self, *, by: float) -> bool:
        """Whether its time was over when it was not seen any more: perhaps nobody released it."""
        return self._until is not None and self._until <= by + SLACK
