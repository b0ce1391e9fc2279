"""Names that a collation, a quote or a driver could confuse with one another."""

from __future__ import annotations

from typing import Any

ODD = (
    *("job", "JOB", "jób", "jo\u0301b", "job ", "job\0", "job\t", "\uff4aob"),
    *("job'", 'job"', "job`", "job\\", "job%s", "job$1", "j;ob", "job--", "{job}"),
    "🔒" * 128,
    "x" * 511 + "'",
)


def are_distinct(locks: Any) -> bool:
    """Return whether one client can hold all the names at once, and finds each hold by its name."""
    leases = [locks.lock(name).acquire(timeout=20) for name in ODD]
    found = [one.name for one in locks.survey()]
    tokens = [locks.inspect(name).holders[0].token for name in ODD]
    for one in leases:
        one.release()
    return found == sorted(ODD, key=str.encode) and tokens == [one.token for one in leases]
