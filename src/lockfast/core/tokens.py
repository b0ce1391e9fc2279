"""The token rule of every store that keeps records.

A plain counter repeats after a failover that lost the last writes. Mixing in the store's
clock makes the token go back only if data is lost *and* the clock is behind by more than
the time since.
"""

from __future__ import annotations

LIMIT = 2**53
"""Tokens stay below this, so that a double and a JSON number carry them exactly."""


def next_token(*, last: int, clock: float) -> int:
    """Return the token of the next grant; `clock` is the store's own, in seconds since 1970."""
    return max(last + 1, int(clock * 1_000_000))
