"""Whether notifications come through: a proof from another connection, while this one is idle.

A notification of one's own comes back on the same connection even through a pooler, and proves
nothing: the pooler gives the connection to the server away between two transactions.
"""

from __future__ import annotations

from lockfast.backends.sql.ringing import NoPush
from lockfast.errors import BackendUnavailable

PROVEN_WITHIN = 2.0
"""A notification that has not come by then does not come."""


def listen_to(channel: str) -> str:
    """Return the statement that begins it; channels are ours, and plain."""
    return f"LISTEN {_quoted(channel)}"


def no_longer(channel: str) -> str:
    """Return the statement that ends it."""
    return f"UNLISTEN {_quoted(channel)}"


def _quoted(channel: str) -> str:
    escaped = channel.replace('"', '""')
    return f'"{escaped}"'


def unproven(*, where: str) -> NoPush:
    """Return the error of a proof that did not come."""
    return NoPush(
        f"{where}: notifications do not come through, most likely because of a pooler in "
        "transaction mode; waiting claims ask by themselves. For quick hand-overs give the "
        "server's own address, or a pooler in session mode"
    )


def given_up(*, where: str) -> BackendUnavailable:
    """Return the error of an opening that nobody waits for any more."""
    return BackendUnavailable(f"{where}: nobody wants to hear anything any more")
