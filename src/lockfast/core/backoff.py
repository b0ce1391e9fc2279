"""How long to wait before the next request; the caller passes in the randomness."""

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

    The longest possible pause doubles with each attempt, up to `most`. The actual pause is between
    half of the longest and the longest, so that clients that failed together do not all retry at
    the same time.
    """
    ceiling: float = min(most, first * 2.0 ** min(attempt, 30))
    return ceiling * (0.5 + jitter / 2)


def spread(seconds: float, *, jitter: float, at_most: float = 0.05) -> float:
    """Return slightly more than `seconds`, so that waiters do not all send a request at once."""
    return seconds + min(at_most, seconds * 0.1 + 0.001) * jitter


# For how long a caller tolerates a store that does not answer.


@dataclass(frozen=True, slots=True)
class OutagePatience:
    """An outage as seen by one caller: when it began, and how many requests have failed before."""

    since: float
    failures: int = 0

    def should_retry(self, *, now: float, deadline: float, ttl: float, was_answered: bool) -> bool:
        """Return whether to send the request once more.

        A caller in line keeps asking for up to a ttl; after that, its place in line is gone anyway.
        A caller that has had no reply yet repeats the request only once.
        """
        is_worth_it = now < self.since + ttl if was_answered else self.failures == 0
        return is_worth_it and now < deadline

    def again(self) -> OutagePatience:
        """Return the outage after one more unanswered request."""
        return OutagePatience(self.since, self.failures + 1)
