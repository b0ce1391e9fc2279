"""From when a session's time counts; pure.

An answer to a heartbeat shows that somebody has heard of us. Whether that one may still speak
for the store is another matter: a leader that was deposed and does not know it goes on
answering for seconds, while its successor ends the session and lets the next one in. So only
what a quorum has confirmed proves anything.

In one kind of store a heartbeat is heard by the leader itself, and the quorum is asked after
its answer: it proves itself, from when it was sent. In the other it is heard by a member, which
tells the leader with a delay, and what the quorum confirms is that the leader was the leader
when it was asked. That proves the newest sign of life that the leader must have known then.
Three things are known of an answer there, and none of them alone is enough.

*Any* answer shows that the member we are connected to has heard of us. A part of the timeout
after it the leader knows, if that member still follows it.

A *greeting*, when a connection is made anew, came from the leader itself: it was asked
whether the session lives, and counts from there.

A *transaction* is what only the true leader can answer, since a majority has to confirm it.
Members close their connections when they change their leader, so a transaction confirms all
that was heard by way of the same connection before it; and what was heard before that is
older than the connection's greeting. If another leader comes after it, that one gives every
session its full time anew.

Somebody who only waits may go by the answers alone.

That the session was opened proves itself, from before it was asked for: it is a transaction.
"""

from __future__ import annotations

APART = 0.3
"""This part of the timeout after an answer the leader knows of it: a member of ZooKeeper tells
it every half tick, and a session lasts two ticks at least."""

PAUSE = 0.31
"""The next heartbeat is sent this part of the timeout after an answer: so that it confirms
the last one, however slow the answer was. That makes about three per timeout."""

GRAIN = 0.05
"""Of many answers to other requests one is remembered in this part of the timeout."""


class Proof:
    """The signs of life that were answered, and from when the session's time counts.

    `counted_from` is for leases: a majority has confirmed it. `heard_from` is what a member
    says, and good enough to wait.
    """

    __slots__ = ("_signs", "_ttl", "counted_from", "heard_from", "last_confirmed", "next_due")

    def __init__(self, *, opened_at: float, ttl: float) -> None:
        self.counted_from: float = opened_at
        self.heard_from: float = opened_at
        self.last_confirmed: float = opened_at
        self.next_due: float = opened_at + PAUSE * ttl
        """When the next heartbeat should be sent; an earlier one would confirm nothing more."""
        self._ttl = ttl
        self._signs: list[tuple[float, float]] = [(opened_at, opened_at)]
        """When each was sent, and from when on the leader knows of it."""

    def greeted(self, *, sent_at: float, now: float) -> None:
        """Let a connection that was made anew count, once a transaction follows it."""
        self.heard_from = max(self.heard_from, sent_at)
        self._signs.append((sent_at, now))

    def beaten(
        self, *, sent_at: float, now: float, is_confirmed: bool, proves_itself: bool = False
    ) -> None:
        """Let an answered heartbeat count; `is_confirmed` if a quorum has.

        One that proves itself counts from when it was sent, if it was confirmed.
        """
        if is_confirmed and proves_itself:
            self.counted_from = max(self.counted_from, sent_at)
            self.heard_from = max(self.heard_from, sent_at)
            self.last_confirmed = max(self.last_confirmed, sent_at)
        else:
            self._answered(sent_at, is_confirmed=is_confirmed)
            self._signs.append((sent_at, now + APART * self._ttl))
        # One that was sent out of turn confirms an older sign of life than the next one will,
        # which it must not put off.
        if sent_at >= self.next_due:
            self.next_due = now + PAUSE * self._ttl

    def confirmed(self, *, sent_at: float, now: float) -> None:
        """Let any other transaction of the session count."""
        self._answered(sent_at, is_confirmed=True)
        if sent_at >= self._signs[-1][0] + GRAIN * self._ttl:
            self._signs.append((sent_at, now + APART * self._ttl))

    def is_stale(self, now: float) -> bool:
        """Whether a newer sign of life is known by now and only has to be confirmed.

        A lease that began without would have too little left when the next heartbeat is due.
        """
        return now - self.counted_from >= (APART + PAUSE) * self._ttl

    def is_due(self, now: float) -> bool:
        """Whether a transaction now would confirm something new that is needed."""
        return now >= self.next_due or self.is_stale(now)

    def _answered(self, sent_at: float, *, is_confirmed: bool) -> None:
        known = [one for one in self._signs if one[1] <= sent_at]
        if known:
            newest = max(known)
            self.heard_from = max(self.heard_from, newest[0])
            if is_confirmed:
                self.counted_from = max(self.counted_from, newest[0])
            self._signs = [newest, *[one for one in self._signs if one[1] > sent_at]]
        if is_confirmed:
            self.last_confirmed = max(self.last_confirmed, sent_at)
