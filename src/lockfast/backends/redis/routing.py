"""Which node of a cluster a request belongs to, and what an answer says about it; pure.

Only what a node did *not* do is asked again here: it pointed elsewhere, or it refused. A
request whose reply was lost may have been carried out, and that is not for the wire to
repeat: a release that worked would be answered as if the lock had been lost.
"""

from __future__ import annotations

import re
from binascii import crc_hqx
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from lockfast.backends.redis import requests
from lockfast.backends.redis.durability import is_confirmation
from lockfast.backends.redis.resp import Refusal, Reply, packed
from lockfast.errors import BackendMisbehaved, BackendUnavailable, LockError, OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lockfast.backends.redis.cluster.maps import SlotMap

SLOTS = 16384

ASKING = packed(b"ASKING")

PASSING = frozenset({"CLUSTERDOWN", "TRYAGAIN", "LOADING", "MASTERDOWN", "READONLY"})
"""Refusals that pass: a failover, a slot on its way to another node, a node that starts."""

OUTDATING = PASSING - {"TRYAGAIN"}
"""Refusals that another map could explain: the node was replaced, removed, or cut off from its
peers, and learns of that last or never. Not a slot on its way: that one is where it should be."""

TOGETHER = 500
"""As many requests go to a server in one write."""

HOPS = 8
"""As often a request follows at once where it is pointed to; after that it pauses."""

FIRST_PAUSE, LONGEST_PAUSE = 0.01, 0.25
"""Between two attempts; a slot is moved in milliseconds, a failover takes seconds."""

FRESH = 0.1
"""A map that was asked for so lately is not asked for again, whatever speaks against it."""

SHARE, LEAST = 3, 0.1
"""One attempt to connect takes this part of the time that is left, at least so many seconds."""


class Endpoint(NamedTuple):
    """Where a node listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


Remap = Callable[[Endpoint], Endpoint]
"""Where a node is reached that calls itself so: behind a NAT, in a container."""


def is_passing(reply: Reply) -> bool:
    """Whether the server refused for a reason that another master, or a moment, may cure."""
    return isinstance(reply, Refusal) and reply.code in PASSING


# -- slots -----------------------------------------------------------------------------


def slot_of_key(key: bytes) -> int:
    """Return the slot of a key: of what stands in its first braces, if anything does."""
    start = key.find(b"{")
    if start >= 0:
        end = key.find(b"}", start + 1)
        if end > start + 1:
            key = key[start + 1 : end]
    return crc_hqx(key, 0) % SLOTS


def slot_of(request: bytes) -> int | None:
    """Return the slot of a call of one of our scripts; None for what belongs to no key.

    The first key begins where the count of keys ends; all keys of a call share its slot.
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
    """Where it was pointed to; None: wherever the map says."""
    before: tuple[bytes, ...] = ()
    """What has to be said right before it."""
    after: tuple[bytes, ...] = ()
    """What belongs right behind it, on the same connection: a confirmation."""
    confirmations: list[Reply] = field(default_factory=list)
    outcome: Reply | LockError = None
    is_over: bool = False
    must_pause: bool = False
    hops: int = 0

    @classmethod
    def for_request(cls, request: bytes) -> RoutedRequest:
        """Return the request, with its slot."""
        return cls(request, slot_of(request))

    def hear(self, replies: Sequence[Reply], *, asked: Endpoint, remap: Remap) -> bool:
        """Take the answers to what was sent: it is over, or goes on elsewhere or later.

        Returns whether the node is one to doubt: it did not answer, or refused as it would
        if it no longer were the one to ask.
        """
        was_asking = ASKING in self.before
        prelude, reply = replies[: len(self.before)], replies[len(self.before)]
        self.confirmations = list(replies[len(self.before) + 1 :])
        # A script that could not be loaded is the answer, and not that it is still missing.
        reply = next((one for one in prelude if isinstance(one, Refusal)), reply)
        self.outcome, self.node, self.before, self.must_pause = reply, None, (), False
        code = reply.code if isinstance(reply, Refusal) else None
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
                # A node without a name: another node's map may have its address.
                self.hops += 1
                self.must_pause = True
                return True
            self.node, self.before = remap(pointed), ((ASKING,) if code == "ASK" else ())
        elif code not in PASSING:
            self.is_over = True
            return isinstance(reply, OutcomeUnknown)
        self.hops += 1
        self.must_pause = code in PASSING or self.hops % HOPS == 0
        return code in OUTDATING

    def requests(self) -> tuple[bytes, ...]:
        """Return all that is sent for it, in this order and with nothing in between."""
        return (*self.before, self.request, *self.after)

    def outcomes(self) -> list[Reply]:
        """Return its outcome, and those of what belongs behind it."""
        missing = len(self.after) - len(self.confirmations)
        return [self.outcome, *self.confirmations, *([self.outcome] * missing)]

    def fail(self, error: LockError) -> None:
        """Take an error: nothing was sent. An outage may pass; what else is wrong does not."""
        self.outcome, self.node, self.before = error, None, ()
        self.must_pause, self.is_over = True, not isinstance(error, BackendUnavailable)

    def give_up(self, *, where: str) -> None:
        """Take it that the time is up; an answer that only points elsewhere is none."""
        if isinstance(self.outcome, Refusal) and self.outcome.code in ("MOVED", "ASK", "NOSCRIPT"):
            self.outcome = BackendUnavailable(
                f"{where}: the nodes do not agree on who serves the slot ({self.outcome.text})"
            )


def _pointed_to(text: str, asked: Endpoint) -> Endpoint | None:
    """Return where the refusal points; None if these are not the words of a cluster's node."""
    found = _POINTER.fullmatch(text)
    return None if found is None else Endpoint(found[1] or asked.host, int(found[2]))


_POINTER = re.compile(r"(?:MOVED|ASK) \d+ (.*):(\d{1,5})")


def routes_of(requests: Iterable[bytes]) -> list[RoutedRequest]:
    """Return where some requests go; a confirmation goes with the one before it."""
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
    """Return the routed requests of each node; of None, if nobody is known to serve their slots."""
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
    """Return the routed requests of each node, as many at a time as go in one write."""
    return [
        (node, group[i : i + TOGETHER])
        for node, group in by_node(routes, slots).items()
        for i in range(0, len(group), TOGETHER)
    ]


def learn(routes: Iterable[RoutedRequest], slots: SlotMap) -> bool:
    """Correct the map by what the requests have met: a slot that has moved, not one on its way.

    Returns whether there was such a slot. It seldom moves alone, so the map is asked for again.
    """
    moved = [one for one in routes if one.node is not None and not one.before]
    for one in moved:
        if one.slot is not None:
            slots.correct(one.slot, one.node)  # type: ignore[arg-type]
    return bool(moved)


def attempt_until(*, now: float, deadline: float) -> float:
    """Return when one attempt to connect is given up: another node may be quicker to answer."""
    return min(deadline, now + max(LEAST, (deadline - now) / SHARE))
