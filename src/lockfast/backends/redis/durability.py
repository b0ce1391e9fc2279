"""Confirms that a grant is on a replica or on disk, to survive the loss of a server. No I/O.

The request for the confirmation follows the acquire on the same connection, and blocks that
connection. A confirmation narrows the window in which an acknowledged lock can be lost but does not
close it, because a failover may choose a replica that has not confirmed.
"""

from __future__ import annotations

import re
from typing import Literal, get_args

from lockfast.backends.redis import errors
from lockfast.backends.redis.resp import ErrorReply, Reply, packed
from lockfast.errors import ConfigurationError, LockError, OutcomeUnknown

Durability = Literal["replica", "fsync"]

CONFIRM_FRACTION = 0.8
"""Fraction of the remaining time for which the server may wait for the confirmation, so that its
reply still arrives in time."""


def checked_durability(value: object) -> Durability | None:
    """Return the durability; raise ConfigurationError if the value is unknown."""
    if value is not None and value not in get_args(Durability):
        raise ConfigurationError(f"durability={value!r}: replica or fsync is accepted")
    return value  # type: ignore[return-value]


def confirmation(durability: Durability, *, left: float) -> bytes:
    """Return the confirmation request; the server replies once the grant is safe, or times out."""
    milliseconds = b"%d" % max(1, int(left * CONFIRM_FRACTION * 1000))
    if durability == "replica":
        return packed(b"WAIT", b"1", milliseconds)
    return packed(b"WAITAOF", b"1", b"0", milliseconds)


def is_confirmation(request: bytes) -> bool:
    """Return whether this is a confirmation, which must follow its request to the same node."""
    return _CONFIRMATION.match(request) is not None


_CONFIRMATION = re.compile(rb"\*\d\r\n\$\d\r\nWAIT(AOF)?\r\n")


def unconfirmed(
    reply: Reply | LockError, durability: Durability, *, where: str
) -> LockError | None:
    """Return the error if the grant was not confirmed; None if it was confirmed."""
    if isinstance(reply, LockError):
        return reply
    if isinstance(reply, ErrorReply) and "WAITAOF" in reply.text:
        return ConfigurationError(
            f"{where}: durability='fsync' needs Redis 7.2 or newer with appendonly yes "
            f"({reply.text})"
        )
    if isinstance(reply, ErrorReply) and reply.code == "NOPERM":
        return errors.refused(reply, where=where)
    count = reply[0] if isinstance(reply, list) and reply else reply
    if isinstance(count, int) and count >= 1:
        return None
    confirmer = "replica" if durability == "replica" else "disk"
    return OutcomeUnknown(
        f"{where}: no {confirmer} confirmed the grant in time (durability={durability!r})"
    )
