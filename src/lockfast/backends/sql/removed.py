"""Options that the SQL servers' stores no longer have, and what to use instead."""

from __future__ import annotations


def advisory_mode(*, rights: str) -> dict[tuple[str, str], str]:
    """Return the entry for `mode=advisory`; `rights` are what a user needs on the tables."""
    return {
        ("mode", "advisory"): (
            "leave the option out to keep locks as leases in two tables, which are created on "
            "first use. If this user may not create tables, have an administrator run `lockfast "
            "init URL`, or the statements that --dry-run prints, and grant this user "
            f"{rights}. How to move: docs/how-to/from-pg-advisory-lock.md"
        )
    }
