"""Since when a session is known to live; pure.

A follower that is cut from the leader goes on answering reads and pings, while the leader
has already ended the session. Only `sync` goes to the leader. And the leader hears of a
session's life only with the follower's answers to its own pings, every half tick. So an
answered `sync` proves that the leader knows of what we sent half a tick *before* it, not of
the `sync` itself. A session lasts two ticks at least; hence a part of its timeout is longer
than the leader's pause between two pings.

That the session was opened proves itself, from before it was asked for: the leader did it.
"""

from __future__ import annotations

APART = 0.3
"""Two heartbeats this part of the timeout apart prove the earlier: more than half a tick."""

PAUSE = 0.31
"""The next one is sent this part of the timeout after an answer: so that it counts, however
slow the answer was. That makes about three per timeout."""


class Proof:
    """The heartbeats that were answered, and from when the session's time counts."""

    __slots__ = ("_answered", "counted_from", "last_sent", "ttl")

    def __init__(self, *, opened_at: float, ttl: float) -> None:
        self.ttl = ttl
        self.counted_from = opened_at
        self.last_sent = opened_at
        self._answered: list[tuple[float, float]] = [(opened_at, opened_at)]

    def answered(self, *, sent_at: float, now: float) -> None:
        """Let an answered heartbeat count.

        The earlier one must have been answered long enough before this one was sent: two in
        a row may fall between two pings of the leader, and then prove nothing.
        """
        self.last_sent = max(self.last_sent, sent_at)
        earlier = [one for one in self._answered if one[1] <= sent_at - APART * self.ttl]
        if earlier:
            self.counted_from = max(self.counted_from, earlier[-1][0])
        self._answered = [*earlier[-1:], *self._answered[len(earlier) :], (sent_at, now)]

    @property
    def next_due(self) -> float:
        """When the next heartbeat should be sent; an earlier one would prove nothing more."""
        return self._answered[-1][1] + PAUSE * self.ttl
