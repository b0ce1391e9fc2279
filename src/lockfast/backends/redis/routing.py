"""Picks the cluster node for a request, and follows redirections and refusals. No I/O.

A request is repeated only if the node redirected or refused it, and so did *not* carry it out. A
request whose reply was lost may have been carried out. The transport must not repeat it, because a
release that worked would then be answered as if the lock had been lost.
"""

from __future__ import annotations

import re
from binascii import crc_hqx
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lockfast.backends.redis import requests
from lockfast.backends.redis.durability import is_confirmation
from lockfast.backends.redis.resp import ErrorReply, Reply, packed
from lockfast.core.descriptor import Endpoint
from lockfast.errors import BackendMisbehaved, BackendUnavailable, LockError, OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lockfast.backends.redis.cluster_map import SlotMap

SLOTS = 16384

ASKING = packed(b"ASKING")

TRANSIENT_ERRORS = frozenset({"CLUSTERDOWN", "TRYAGAIN", "LOADING", "MASTERDOWN", "READONLY"})
"""Temporary refusals: during a failover, while a slot moves to another node, while a node starts.
"""

OUTDATING = TRANSIENT_ERRORS - {"TRYAGAIN"}
"""Refusals that suggest an outdated map: the node may have been replaced, removed, or cut off from
its peers, and a node learns of that late or never. TRYAGAIN is not among them, because then the
slot is still where the map says."""

ROUTED_BATCH = 500
"""Requests sent to a server in one write."""

REDIRECTS_MAX = 8
"""Number of redirections that a request follows before it has to pause."""

FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS = 0.01, 0.25
"""Shortest and longest pause between two attempts; a slot is moved in milliseconds, a failover
takes seconds."""

MAP_FRESH_SECONDS = 0.1
"""A map that was requested this recently is not requested again, even if a reply contradicts it."""

ATTEMPT_SHARE, ATTEMPT_MIN_SECONDS = 3, 0.1
"""The time limit of one attempt to connect: the remaining time divided by ATTEMPT_SHARE, but at
least ATTEMPT_MIN_SECONDS."""


Remap = Callable[[Endpoint], Endpoint]
"""Maps the address that a node announces to an address at which we reach the node, if it is behind
a NAT or in a container."""


def is_transient(reply: Reply) -> bool:
    """Return whether the refusal is temporary, so that a retry or another master may succeed."""
    return isinstance(reply, ErrorReply) and reply.code in TRANSIENT_ERRORS


# -- slots -----------------------------------------------------------------------------


def slot_of_key(key: bytes) -> int:
    """Return the slot of a key, computed from the text in its first braces if there is any."""
    start = key.find(b"{")
    if start >= 0:
        end = key.find(b"}", start + 1)
        if end > start + 1:
            key = key[start + 1 : end]
    return crc_hqx(key, 0) % SLOTS


def slot_of(request: bytes) -> int | None:
    """Return the slot of a script call; None for a request without a key.

    The first key follows the count of keys. All keys of a call are in the same slot.
    """
    found = _FIRST_KEY.match(request)
    if found is None:
        return None
    return slot_of_key(request[found.end() : found.end() + int(found[1])])


_FIRST_KEY = re.compile(
    rb"\*\d+\r\n\$7\r\nEVALSHA\r\n\$40\r\n[0-9a-f]{40}\r\n\$\d+\r\n\d+\r\n\$(\d+)\r\n"
)


# -- what becomes of a request -----------------------------------------------------------


@dataclass(slots=True)
class RoutedRequest:
    """A request on its way to the node that serves it, until its outcome is known."""

    request: bytes
    slot: int | None
    node: Endpoint | None = None
    """The node to which a reply redirected the request; None if the map decides."""
    before: tuple[bytes, ...] = ()
    """Requests to send right before the request."""
    after: tuple[bytes, ...] = ()
    """Requests to send right after the request, on the same connection: its confirmation, if any.
    """
    confirmations: list[Reply] = field(default_factory=list)
    outcome: Reply | LockError = None
    is_over: bool = False
    must_pause: bool = False
    hops: int = 0

    @classmethod
    def for_request(cls, request: bytes) -> RoutedRequest:
        """Return the request, with its slot."""
        return cls(request, slot_of(request))

    def deliver(self, replies: Sequence[Reply], *, asked: Endpoint, remap: Remap) -> bool:
        """Record the replies; the request has ended, or is sent again to another node or later.

        Returns whether to suspect the node. A node is suspect if it did not reply, or if its
        refusal suggests that it no longer serves the slot.
        """
        was_asking = ASKING in self.before
        prelude, reply = replies[: len(self.before)], replies[len(self.before)]
        self.confirmations = list(replies[len(self.before) + 1 :])
        # If the script could not be loaded, the outcome is the error from loading it, not NOSCRIPT.
        reply = next((one for one in prelude if isinstance(one, ErrorReply)), reply)
        self.outcome, self.node, self.before, self.must_pause = reply, None, (), False
        code = reply.code if isinstance(reply, ErrorReply) else None
        if code == "NOSCRIPT":
            self.node = asked
            self.before = (requests.load_for(self.request), *((ASKING,) if was_asking else ()))
        elif code in ("ASK", "MOVED"):
            pointed = _pointed_to(reply.text, asked)
            if pointed is None:
                self.outcome = BackendMisbehaved(f"{asked} points nowhere: {reply.text[:80]!r}")
                self.is_over = True
                return True
            if pointed.host == "?":
                # The redirection does not name the new node, but another node's map may have its
                # address.
                self.hops += 1
                self.must_pause = True
                return True
            self.node, self.before = remap(pointed), ((ASKING,) if code == "ASK" else ())
        elif code not in TRANSIENT_ERRORS:
            self.is_over = True
            return isinstance(reply, OutcomeUnknown)
        self.hops += 1
        self.must_pause = code in TRANSIENT_ERRORS or self.hops % REDIRECTS_MAX == 0
        return code in OUTDATING

    def requests(self) -> tuple[bytes, ...]:
        """Return everything to send for this request, in order and with nothing in between."""
        return (*self.before, self.request, *self.after)

    def outcomes(self) -> list[Reply]:
        """Return the outcomes of the request and of its confirmations."""
        missing = len(self.after) - len(self.confirmations)
        return [self.outcome, *self.confirmations, *([self.outcome] * missing)]

    def fail(self, error: LockError) -> None:
        """Record why nothing was sent; an outage is retried, any other error is final."""
        self.outcome, self.node, self.before = error, None, ()
        self.must_pause, self.is_over = True, not isinstance(error, BackendUnavailable)

    def give_up(self, *, where: str) -> None:
        """Record that time is up; if the last reply only redirected, the outcome is an outage."""
        if isinstance(self.outcome, ErrorReply) and self.outcome.code in (
            "MOVED",
            "ASK",
            "NOSCRIPT",
        ):
            self.outcome = BackendUnavailable(
                f"{where}: the nodes do not agree on who serves the slot ({self.outcome.text})"
            )


def _pointed_to(text: str, asked: Endpoint) -> Endpoint | None:
    """Return the node to which a redirection points; None if the redirection is malformed."""
    found = _POINTER.fullmatch(text)
    return None if found is None else Endpoint(found[1] or asked.host, int(found[2]))


_POINTER = re.compile(r"(?:MOVED|ASK) \d+ (.*):(\d{1,5})")


def routes_of(requests: Iterable[bytes]) -> list[RoutedRequest]:
    """Return the routes of some requests; a confirmation goes with the request before it."""
    found: list[RoutedRequest] = []
    for request in requests:
        if found and is_confirmation(request):
            found[-1].after += (request,)
        else:
            found.append(RoutedRequest.for_request(request))
    return found


def by_node(
    routes: Iterable[RoutedRequest], slots: SlotMap | None
) -> dict[Endpoint | None, list[RoutedRequest]]:
    """Return the routed requests by node; the key None is for slots without a known owner."""
    groups: dict[Endpoint | None, list[RoutedRequest]] = {}
    for one in routes:
        node = one.node
        if node is None and slots is not None:
            node = next(iter(slots.masters), None) if one.slot is None else slots.owners[one.slot]
        groups.setdefault(node, []).append(one)
    return groups


def batches(
    routes: Iterable[RoutedRequest], slots: SlotMap | None
) -> list[tuple[Endpoint | None, list[RoutedRequest]]]:
    """Return the routed requests of each node, in batches of one write each."""
    return [
        (node, group[i : i + ROUTED_BATCH])
        for node, group in by_node(routes, slots).items()
        for i in range(0, len(group), ROUTED_BATCH)
    ]


def learn(routes: Iterable[RoutedRequest], slots: SlotMap) -> bool:
    """Correct the map for slots that have moved, but not for slots that are still moving.

    Returns whether any slot has moved; if so, the caller requests a new map, because slots seldom
    move one at a time.
    """
    moved = [one for one in routes if one.node is not None and not one.before]
    for one in moved:
        if one.slot is not None:
            slots.correct(one.slot, one.node)  # type: ignore[arg-type]
    return bool(moved)


def attempt_until(*, now: float, deadline: float) -> float:
    """Return when to give up one attempt to connect, so that time is left to try another node."""
    return min(deadline, now + max(ATTEMPT_MIN_SECONDS, (deadline - now) / ATTEMPT_SHARE))
