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
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.errors import BackendUnavailable, ConfigurationError, LockError, OutcomeUnknown
from holdfast.wire import refusals, verbs
from holdfast.wire.confirming import is_confirmation
from holdfast.wire.resp import Refusal, Reply, packed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

SLOTS = 16384

ASKING = packed(b"ASKING")
SLOT_MAP = packed(b"CLUSTER", b"SLOTS")

PASSING = frozenset({"CLUSTERDOWN", "TRYAGAIN", "LOADING", "MASTERDOWN", "READONLY"})
"""Refusals that pass: a failover, a slot on its way to another node, a node that starts."""

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


class Address(NamedTuple):
    """Where a node listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


Remap = Callable[[Address], Address]
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


@dataclass(frozen=True, slots=True)
class SlotMap:
    """Who serves which slot, as one node told it; corrected by what is MOVED since."""

    owners: list[Address | None]
    masters: list[Address]
    nodes: frozenset[Address]
    """Masters and replicas."""

    def correct(self, slot: int, owner: Address) -> None:
        """Know that the slot has moved."""
        self.owners[slot] = owner
        if owner not in self.masters:
            self.masters.append(owner)


def slot_map(reply: Sequence[Any], *, told_by: Address, remap: Remap) -> SlotMap:
    """Read the answer to CLUSTER SLOTS."""
    owners: list[Address | None] = [None] * SLOTS
    nodes: set[Address] = set()
    for first, last, master, *replicas in reply:
        found = [_endpoint(one, told_by) for one in (master, *replicas)]
        addresses = [None if one is None else remap(one) for one in found]
        owners[first : last + 1] = [addresses[0]] * (last + 1 - first)
        nodes.update(one for one in addresses if one is not None)
    masters = sorted({owner for owner in owners if owner is not None})
    return SlotMap(owners, masters, frozenset(nodes))


def _endpoint(node: Sequence[Any], told_by: Address) -> Address | None:
    host = node[0].decode() if node[0] else ""
    if host == "?":
        return None  # its name is asked for, and it knows none
    # Nothing in the host's place means: the same that you asked.
    return Address(host or told_by.host, node[1])


# -- what becomes of a request -----------------------------------------------------------


@dataclass(slots=True)
class Errand:
    """A request on its way to the node that serves it, until its outcome is known."""

    request: bytes
    slot: int | None
    node: Address | None = None
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
    def for_request(cls, request: bytes) -> Errand:
        """Return the errand of a request."""
        return cls(request, slot_of(request))

    def hear(self, replies: Sequence[Reply], *, asked: Address, remap: Remap) -> bool:
        """Take the answers to what was sent: it is over, or goes on elsewhere or later.

        Returns whether the node did not answer.
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
            self.before = (verbs.load_for(self.request), *((ASKING,) if was_asking else ()))
        elif code == "ASK":
            self.node, self.before = remap(_pointed_to(reply.text, asked)), (ASKING,)
        elif code == "MOVED":
            self.node = remap(_pointed_to(reply.text, asked))
        elif code not in PASSING:
            self.is_over = True
            return isinstance(reply, OutcomeUnknown)
        self.hops += 1
        self.must_pause = code in PASSING or self.hops % HOPS == 0
        return False

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


def _pointed_to(text: str, asked: Address) -> Address:
    # MOVED 3999 127.0.0.1:6381
    host, _, port = text.split(" ")[2].rpartition(":")
    return Address(host or asked.host, int(port))


def errands_of(requests: Iterable[bytes]) -> list[Errand]:
    """Return the errands of some requests; a confirmation goes with the one before it."""
    found: list[Errand] = []
    for request in requests:
        if found and is_confirmation(request):
            found[-1].after += (request,)
        else:
            found.append(Errand.for_request(request))
    return found


def by_node(errands: Iterable[Errand], slots: SlotMap | None) -> dict[Address | None, list[Errand]]:
    """Return the errands of each node; of None, if nobody is known to serve their slots."""
    groups: dict[Address | None, list[Errand]] = {}
    for one in errands:
        node = one.node
        if node is None and slots is not None:
            node = next(iter(slots.masters), None) if one.slot is None else slots.owners[one.slot]
        groups.setdefault(node, []).append(one)
    return groups


def batches(
    errands: Iterable[Errand], slots: SlotMap | None
) -> list[tuple[Address | None, list[Errand]]]:
    """Return the errands of each node, as many at a time as go in one write."""
    return [
        (node, group[i : i + TOGETHER])
        for node, group in by_node(errands, slots).items()
        for i in range(0, len(group), TOGETHER)
    ]


def learn(errands: Iterable[Errand], slots: SlotMap) -> None:
    """Correct the map by what the errands have met: a slot that has moved, not one on its way."""
    for one in errands:
        if one.slot is not None and one.node is not None and not one.before:
            slots.correct(one.slot, one.node)


def candidates(
    slots: SlotMap | None, *, seeds: Iterable[Address], suspects: Collection[Address], start: float
) -> list[Address]:
    """Return whom to ask for the map: masters, replicas, seeds; those who failed come last.

    `start` is in [0, 1): not everybody begins with the same node, which may be behind.
    """
    masters = [] if slots is None else slots.masters
    first = int(start * len(masters))
    rest = () if slots is None else sorted(slots.nodes)
    found = dict.fromkeys((*masters[first:], *masters[:first], *rest, *seeds))
    return sorted(found, key=lambda one: one in suspects)


def not_a_map(refusal: Refusal, *, where: str) -> LockError:
    """Return the error when a node does not tell the map."""
    if "cluster support disabled" in refusal.text:
        return ConfigurationError(f"{where} is not a cluster; use redis://")
    return refusals.refused(refusal, where=where)


def attempt_until(*, now: float, deadline: float) -> float:
    """Return when one attempt to connect is given up: another node may be quicker to answer."""
    return min(deadline, now + max(LEAST, (deadline - now) / SHARE))
