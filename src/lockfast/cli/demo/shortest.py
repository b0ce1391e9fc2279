"""The shortest ttl that a store accepts: nobody wants to watch a lease run out for long."""

from __future__ import annotations

from lockfast import ConfigurationError, Locks

CANDIDATES = (1.0, 2.0, 5.0, 10.0)


def shortest_ttl(url: str | None) -> float:
    """Return the first of a few that the store does not refuse; asks nothing of the store."""
    for ttl in CANDIDATES[:-1]:
        try:
            Locks(url, ttl=ttl).close()
        except ConfigurationError:
            continue
        return ttl
    return CANDIDATES[-1]
