"""How long to wait before asking again; the randomness is given, never drawn here."""

from __future__ import annotations

FIRST = 0.05
MOST = 2.0


def delay(attempt: int, *, jitter: float, first: float = FIRST, most: float = MOST) -> float:
    """Return the pause before retry number `attempt` (from 0); `jitter` is in [0, 1).

    Doubling, and spread over the upper half, so that clients that failed together do
    not come back together.
    """
    ceiling: float = min(most, first * 2.0 ** min(attempt, 30))
    return ceiling * (0.5 + jitter / 2)


def spread(seconds: float, *, jitter: float, at_most: float = 0.05) -> float:
    """Return a little more than `seconds`, so that waiters do not ask in the same instant."""
    return seconds + min(at_most, seconds * 0.1 + 0.001) * jitter
