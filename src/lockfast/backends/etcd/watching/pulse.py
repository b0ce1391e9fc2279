"""When a member that is only listened to is asked whether it is there; pure.

Nothing may happen to a key for days, and a way that was cut without a word looks just the same.
"""

from __future__ import annotations

from enum import Enum

PING_EVERY = 10.0
"""Where nothing was heard for so long, the member is asked whether it is there. By default it
takes who asks more often than every 5 s for a nuisance, and hangs up."""

PATIENCE = 5.0
"""So long it may take to answer that."""


class Due(Enum):
    """What is to be done about a member."""

    NOTHING = "nothing"
    ASK = "ask"
    LEAVE = "leave"


class Pulse:
    """When a member was last heard, and asked whether it is there."""

    __slots__ = ("_asked_at", "_heard_at")

    def __init__(self, now: float) -> None:
        self._heard_at = now
        self._asked_at: float | None = None

    @property
    def awaits_a_sign(self) -> bool:
        """Whether it was asked and has not answered."""
        return self._asked_at is not None

    def heard(self, now: float) -> None:
        """Know that something came, whatever it was."""
        self._heard_at = now
        self._asked_at = None

    def due(self, now: float) -> Due:
        """Return what is to be done; who is told to ask has asked."""
        if self._asked_at is not None:
            return Due.LEAVE if now - self._asked_at > PATIENCE else Due.NOTHING
        if now - self._heard_at < PING_EVERY:
            return Due.NOTHING
        self._asked_at = now
        return Due.ASK
