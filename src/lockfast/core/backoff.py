"""How long to wait before asking again; the caller passes in the randomness."""

from __future__ import annotations

from dataclasses import dataclass

FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 2.0


def delay(
    attempt: int,
    *,
    jitter: float,
    first: float = FIRST_PAUSE_SECONDS,
    most: float = LONGEST_PAUSE_SECONDS,
) -> float:
    """Return the pause before retry number `attempt` (from 0); `jitter` is in [0, 1).

    The longest possible pause doubles with each attempt, up to `most`. The pause is between half of
    that and all of it, so that clients that failed together do not come back together.
    """
    ceiling: float = min(most, first * 2.0 ** min(attempt, 30))
    return ceiling * (0.5 + jitter / 2)


def spread(seconds: float, *, jitter: float, at_most: float = 0.05) -> float:
    """Return slightly more than `seconds`, so that waiters do not ask at the same instant."""
    return seconds + min(at_most, seconds * 0.1 + 0.001) * jitter


# How long a caller puts up with a store that does not answer.


@dataclass(frozen=True, slots=True)
class OutagePatience:
    """An outage as one caller sees it: when it began, and the number of earlier failures."""

    since: float
    failures: int = 0

    def should_retry(self, *, now: float, deadline: float, ttl: float, was_answered: bool) -> bool:
        """Whether to ask once more.

        A caller in line keeps asking for up to a ttl, after which its place is gone anyway. A
        caller that has had no reply yet asks only once more.
        """
        is_worth_it = now < self.since + ttl if was_answered else self.failures == 0
        return is_worth_it and now < deadline

    def again(self) -> OutagePatience:
        """Return the outage after one more unanswered request."""
        return OutagePatience(self.since, self.failures + 1)
