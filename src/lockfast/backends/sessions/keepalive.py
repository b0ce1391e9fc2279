"""Computes the time from which a session's timeout counts; pure.

A reply to a keep-alive shows that a server received it. It does not show that the server may still
speak for the store. A leader that was deposed and has not noticed keeps answering for seconds,
while its successor ends the session and admits the next claim. So a reply proves something only if
a quorum has confirmed it.

In one kind of store the leader itself receives the keep-alive, and the quorum is asked after the
leader's reply. Such a keep-alive proves itself: the timeout counts from when it was sent. In the
other kind of store a member receives the keep-alive and reports it to the leader with a delay, and
the quorum confirms only that the leader was still the leader when the quorum was asked. That proves
the newest contact that must have been reported to the leader by then.

In a store of the second kind, three kinds of reply matter, and only together are they enough.

*Any* reply shows that the member we are connected to has received our request. A fraction of the
timeout later the member has reported the request to the leader, if it still follows the leader.

A *handshake* on a new connection comes from the leader itself. The leader was asked whether the
session is alive, and counts the timeout from then on.

A *transaction* can be answered only by the true leader, since a majority has to confirm it. Members
close their connections when they change their leader, so a transaction confirms every earlier
contact on the same connection, and any contact before that is older than the connection's
handshake. If another leader follows, it gives every session its full timeout again.

A client that only waits may rely on the replies without a transaction. Opening a session is a
transaction, so it proves the session from before the request was sent.
"""

from __future__ import annotations

LEADER_INFORMED_FRACTION = 0.3
"""Fraction of the timeout by which the leader has learned of a contact that a member answered. A
ZooKeeper member reports to the leader every half tick, and a session lasts at least two ticks."""

KEEPALIVE_FRACTION = 0.31
"""Fraction of the timeout between a reply and the next keep-alive. The next keep-alive is late
enough to confirm the previous one, however slow the reply was, and there are about three
keep-alives per timeout."""

CONTACT_SPACING_FRACTION = 0.05
"""Minimum time between two remembered replies to requests other than keep-alives, as a fraction of
the timeout."""


class SessionProof:
    """The answered contacts, and the times from which the session's timeout counts.

    `counted_from` is for leases, because a majority has confirmed it. `contact_from` is confirmed
    by a single member only, which is good enough for waiting.
    """

    __slots__ = ("_contacts", "_ttl", "contact_from", "counted_from", "last_confirmed", "next_due")

    def __init__(self, *, opened_at: float, ttl: float) -> None:
        self.counted_from: float = opened_at
        self.contact_from: float = opened_at
        self.last_confirmed: float = opened_at
        self.next_due: float = opened_at + KEEPALIVE_FRACTION * ttl
        """When to send the next keep-alive; an earlier keep-alive would not confirm anything new.
        """
        self._ttl = ttl
        self._contacts: list[tuple[float, float]] = [(opened_at, opened_at)]
        """For each contact, when it was sent and by when the leader has learned of it."""

    def greeted(self, *, sent_at: float, now: float) -> None:
        """Record a new connection's handshake; it proves something once a transaction follows."""
        self.contact_from = max(self.contact_from, sent_at)
        self._contacts.append((sent_at, now))

    def keepalive_answered(
        self, *, sent_at: float, now: float, is_confirmed: bool, proves_itself: bool = False
    ) -> None:
        """Record an answered keep-alive; `is_confirmed` says that a quorum confirmed the session.

        If a confirmed keep-alive proves itself, the timeout counts from when it was sent.
        """
        if is_confirmed and proves_itself:
            self.counted_from = max(self.counted_from, sent_at)
            self.contact_from = max(self.contact_from, sent_at)
            self.last_confirmed = max(self.last_confirmed, sent_at)
        else:
            self._answered(sent_at, is_confirmed=is_confirmed)
            self._contacts.append((sent_at, now + LEADER_INFORMED_FRACTION * self._ttl))
        # An early keep-alive confirms an older contact than the scheduled one would, so it must not
        # postpone the scheduled one.
        if sent_at >= self.next_due:
            self.next_due = now + KEEPALIVE_FRACTION * self._ttl

    def confirmed(self, *, sent_at: float, now: float) -> None:
        """Record any other transaction of the session."""
        self._answered(sent_at, is_confirmed=True)
        if sent_at >= self._contacts[-1][0] + CONTACT_SPACING_FRACTION * self._ttl:
            self._contacts.append((sent_at, now + LEADER_INFORMED_FRACTION * self._ttl))

    def is_stale(self, now: float) -> bool:
        """Return whether a newer contact has reached the leader and only has to be confirmed.

        A lease granted without that confirmation would have too little time left when the next
        keep-alive is due.
        """
        return (
            now - self.counted_from >= (LEADER_INFORMED_FRACTION + KEEPALIVE_FRACTION) * self._ttl
        )

    def is_due(self, now: float) -> bool:
        """Return whether a keep-alive is due, or the proof is too old for a new lease."""
        return now >= self.next_due or self.is_stale(now)

    def _answered(self, sent_at: float, *, is_confirmed: bool) -> None:
        known = [one for one in self._contacts if one[1] <= sent_at]
        if known:
            newest = max(known)
            self.contact_from = max(self.contact_from, newest[0])
            if is_confirmed:
                self.counted_from = max(self.counted_from, newest[0])
            self._contacts = [newest, *[one for one in self._contacts if one[1] > sent_at]]
        if is_confirmed:
            self.last_confirmed = max(self.last_confirmed, sent_at)
