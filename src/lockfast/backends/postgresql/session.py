"""What is said when a session becomes ours, and when a transaction begins and ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.backends.postgresql.session_variables import PINNED, PINNED_FOR_SESSIONS
from lockfast.backends.sql.round_trips import Framing
from lockfast.backends.sql.steps import Ask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.backends.sql.session_variables import Pinned

# Every read that decides comes in a statement after the one that locks, and has to see what
# others wrote until then. The server's default may be another isolation.
_BEGIN = Ask("BEGIN ISOLATION LEVEL READ COMMITTED")
_COMMIT, _ROLL_BACK = (Ask("COMMIT"),), (Ask("ROLLBACK"),)


def _set(pinned: Sequence[Pinned], version: int, *, for_transaction: bool) -> Ask:
    known = [one for one in pinned if version >= int(one.on or 0)]
    settings = ", ".join(
        f"set_config(${number}, ${number + 1}, {for_transaction})"
        for number in range(1, 2 * len(known), 2)
    )
    return Ask(f"SELECT {settings}", [said for one in known for said in (one.name, one.value)])


def pinning(version: int) -> Ask:
    """Return what pins a session of our own, on a server of this `server_version_num`."""
    return _set([*PINNED, *PINNED_FOR_SESSIONS], version, for_transaction=False)


# What is sent in one round trip is one transaction by itself.
FRAMING = Framing(begin=(_BEGIN,), commit=_COMMIT, roll_back=_ROLL_BACK)
"""Of a session that is pinned."""


def framing_where_shared(version: int) -> Framing:
    """Return how a transaction is framed on a session that others use too, as by a pooler.

    It pins what it relies on, and takes that with it when it ends; so does one that only looks.
    """
    begin = (_BEGIN, _set(PINNED, version, for_transaction=True))
    return Framing(begin, _COMMIT, _ROLL_BACK, opening=begin, closing=_COMMIT, frames_one=True)
