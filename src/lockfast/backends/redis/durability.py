"""What makes a grant outlive the loss of a server: a replica has it, or the disk; pure.

The confirmation is asked for on the connection that wrote, right behind the request, and
blocks that connection. It narrows the window in which an acknowledged lock can be lost, and
does not close it: a failover may choose a replica that has not confirmed.
"""

from __future__ import annotations

import re
from typing import Literal, get_args

from lockfast.backends.redis import refusals
from lockfast.backends.redis.resp import Refusal, Reply, packed
from lockfast.errors import ConfigurationError, LockError, OutcomeUnknown

Durability = Literal["replica", "fsync"]

PATIENCE = 0.8
"""The server waits for this part of the time that is left, so that its answer comes in time."""


def checked_durability(value: object) -> Durability | None:
    """Return the durability, or say what is accepted."""
    if value is not None and value not in get_args(Durability):
        raise ConfigurationError(f"durability={value!r}: replica or fsync is accepted")
    return value  # type: ignore[return-value]


def confirmation(durability: Durability, *, left: float) -> bytes:
    """Return the request for it; the server answers at once when all is well."""
    milliseconds = b"%d" % max(1, int(left * PATIENCE * 1000))
    if durability == "replica":
        return packed(b"WAIT", b"1", milliseconds)
    return packed(b"WAITAOF", b"1", b"0", milliseconds)


def is_confirmation(request: bytes) -> bool:
    """Whether it belongs to the request before it, and to that one's node."""
    return _CONFIRMATION.match(request) is not None


_CONFIRMATION = re.compile(rb"\*\d\r\n\$\d\r\nWAIT(AOF)?\r\n")


def unconfirmed(
    reply: Reply | LockError, durability: Durability, *, where: str
) -> LockError | None:
    """Return what to raise if it was not confirmed: the claim is then withdrawn."""
    if isinstance(reply, LockError):
        return reply
    if isinstance(reply, Refusal) and "WAITAOF" in reply.text:
        return ConfigurationError(
            f"{where}: durability='fsync' needs Redis 7.2 or newer with appendonly yes "
            f"({reply.text})"
        )
    if isinstance(reply, Refusal) and reply.code == "NOPERM":
        return refusals.refused(reply, where=where)
    count = reply[0] if isinstance(reply, list) and reply else reply
    if isinstance(count, int) and count >= 1:
        return None
    whose = "replica" if durability == "replica" else "disk"
    return OutcomeUnknown(
        f"{where}: no {whose} confirmed the grant in time (durability={durability!r})"
    )
