"""Which node serves which slot, which slots have no node, and when to leave a node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockfast.backends.redis import errors
from lockfast.backends.redis.resp import ErrorReply, Reply, packed
from lockfast.backends.redis.routing import SLOTS, Remap, attempt_until, slot_of_key
from lockfast.core.descriptor import Endpoint
from lockfast.errors import BackendMisbehaved, BackendUnavailable, ConfigurationError, LockError
from lockfast.model import FOREVER

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence


# When a subscription should leave its node. No I/O.
#
# Messages reach every node over the cluster's bus. A node that was removed, or is cut off from its
# peers, receives none of them but still answers. But such a node refuses any request for a key, so
# the subscription's connection sends a request for a key now and then.

LISTEN_CHECK_SECONDS = 1.0
LISTEN_CHECK_TIMEOUT_SECONDS = 2.0
"""A node that does not reply to the check within this many seconds counts as gone."""


def listen_check(channel: bytes) -> bytes:
    """Return a request that a node of a working cluster answers or redirects.

    The name of the channel serves as the key, because our user may access it.
    """
    return packed(b"EXISTS", channel)


def says_cluster_down(answer: Reply) -> bool:
    """Return whether the node replied that it belongs to no working cluster."""
    return isinstance(answer, ErrorReply) and answer.code == "CLUSTERDOWN"


# Which node serves which slot: the maps that nodes report, and which map to believe. No I/O.
#
# A node may be permanently wrong and still answer. A node that was removed from the cluster reports
# a map without slots. A node that is cut off from its peers reports its last map, on which it still
# serves slots that another node has taken over since. A node that joined another cluster reports
# the map of that cluster. So a map counts once a majority of the masters on it report the same map.

SLOT_MAP = packed(b"CLUSTER", b"SLOTS")

NAME_THEM = (
    "set cluster-announce-hostname on every node, or cluster-preferred-endpoint-type ip (with "
    "cluster-announce-ip behind a NAT), or unknown-endpoint if all share the host that you ask"
)

PORT_LIMIT = 65536

OPINIONS_ENOUGH = 3
"""Number of agreeing masters that is enough even in a cluster of hundreds of masters."""

OPINIONS_MAX_SECONDS = 0.2
"""How long to wait for the maps of other nodes, in seconds, once one node has reported a map with
enough slots."""


@dataclass(frozen=True, slots=True)
class SlotMap:
    """The node of each slot, as reported by one node and since corrected by MOVED replies."""

    owners: list[Endpoint | None]
    masters: list[Endpoint]
    nodes: frozenset[Endpoint]
    """Masters and replicas."""
    reported: frozenset[tuple[int, int, Endpoint]] = frozenset()
    """The map as reported: first slot, last slot, owner."""
    unnamed: frozenset[int] = frozenset()
    """Slots whose node is listed as "?"."""

    @property
    def covered(self) -> int:
        """The number of slots that have a node."""
        return sum(last + 1 - first for first, last, _ in self.reported)

    def correct(self, slot: int, owner: Endpoint) -> None:
        """Record that the slot has moved."""
        self.owners[slot] = owner
        if owner not in self.masters:
            self.masters.append(owner)


# -- reading ---------------------------------------------------------------------------


def read_map(
    reply: Reply, *, reported_by: Endpoint, remap: Remap, where: str
) -> SlotMap | LockError:
    """Return the map that a node reported, or an error if its reply is not a map."""
    if isinstance(reply, ErrorReply):
        return _map_refusal(reply, where=where)
    try:
        slots = slot_map(reply, reported_by=reported_by, remap=remap)
    except (TypeError, ValueError, LookupError, AttributeError):
        # The reply is valid in the protocol, but is not a valid map.
        return BackendMisbehaved(
            f"{where}: {reported_by} does not answer CLUSTER SLOTS as a node does: "
            f"{repr(reply)[:80]}"
        )
    if slots.unnamed and not slots.masters:
        return ConfigurationError(
            f'{where}: {reported_by} lists every node without an address ("?"); {NAME_THEM}'
        )
    if not slots.masters:
        return BackendUnavailable(
            f"{where}: {reported_by} serves no slots and knows nobody who does; was it removed "
            "from the cluster?"
        )
    return slots


def slot_map(reply: Sequence[Any], *, reported_by: Endpoint, remap: Remap) -> SlotMap:
    """Return the map in a reply to CLUSTER SLOTS; raise an error if the reply is malformed."""
    owners: list[Endpoint | None] = [None] * SLOTS
    nodes: set[Endpoint] = set()
    reported = set()
    unnamed: set[int] = set()
    for first, last, master, *replicas in reply:
        if not 0 <= first <= last < SLOTS:
            raise ValueError(f"no slots: {first!r} to {last!r}")
        found = [_endpoint(one, reported_by) for one in (master, *replicas)]
        endpoints = [None if one is None else remap(one) for one in found]
        owners[first : last + 1] = [endpoints[0]] * (last + 1 - first)
        nodes.update(one for one in endpoints if one is not None)
        if endpoints[0] is None:
            unnamed.update(range(first, last + 1))
        else:
            reported.add((first, last, endpoints[0]))
    masters = sorted({owner for _, _, owner in reported})
    return SlotMap(owners, masters, frozenset(nodes), frozenset(reported), frozenset(unnamed))


def _endpoint(node: Sequence[Any], reported_by: Endpoint) -> Endpoint | None:
    host = node[0].decode() if node[0] else ""
    if host == "?":
        # The listed node is set to announce a host name but has no host name. It need not be the
        # node that reported the map, so there is no address to try.
        return None
    port = int(node[1])
    if not 0 < port < PORT_LIMIT:
        raise ValueError(f"no port: {port}")
    # If the host is null (unknown-endpoint) or empty (the node does not know its own address), use
    # the host of the node that reported the map, with the port given here.
    return Endpoint(host or reported_by.host, port)


def _map_refusal(refusal: ErrorReply, *, where: str) -> LockError:
    if "cluster support disabled" in refusal.text:
        return ConfigurationError(f"{where} is not a cluster; use redis://")
    return errors.refused(refusal, where=where)


# -- whom to ask, and whom to believe ----------------------------------------------------


def candidates(
    slots: SlotMap | None,
    *,
    seeds: Iterable[Endpoint],
    suspects: Collection[Endpoint],
    start: float,
) -> list[Endpoint]:
    """Return the nodes to ask: masters, replicas, seeds; nodes that failed come last.

    `start`, in [0, 1), selects the first master. Clients should not all begin with the same node,
    because that node's map may be outdated.
    """
    masters = [] if slots is None else slots.masters
    first = int(start * len(masters))
    rest = () if slots is None else sorted(slots.nodes)
    found = dict.fromkeys((*masters[first:], *masters[:first], *rest, *seeds))
    return sorted(found, key=lambda one: one in suspects)


class MapPoll:
    """Decides which node to ask for the map next, and in the end which map to believe.

    Masters that did not fail are asked until a majority agrees. If there is no majority, the map
    that most masters reported counts. Other nodes are asked only until some node reports a map with
    at least as many slots as were served before.
    """

    def __init__(
        self,
        known: SlotMap | None,
        *,
        seeds: Iterable[Endpoint],
        suspects: Collection[Endpoint],
        start: float,
    ) -> None:
        self._queue = candidates(known, seeds=seeds, suspects=suspects, start=start)
        self._suspects = frozenset(suspects)
        self._masters = set() if known is None else set(known.masters)
        self._count = 0 if known is None else len({owner for _, _, owner in known.reported})
        self._covered = SLOTS if known is None else known.covered
        self._asked: set[Endpoint] = set()
        self._heard: dict[Endpoint, SlotMap] = {}
        self._failures: list[LockError] = []
        self._enough_at = FOREVER

    def next(self, now: float) -> Endpoint | None:
        """Return the next node to ask; None if enough is known, or nodes or time have run out."""
        best = self._best()
        covers = best is not None and best.covered >= self._covered
        if best is not None and covers and (now >= self._enough_at or self._is_settled(best)):
            return None
        for node in self._queue:
            may_be_asked = best is None or (
                node not in self._suspects and (not covers or node in self._masters)
            )
            if may_be_asked and node not in self._asked:
                self._asked.add(node)
                return node
        return None

    def until(self, *, now: float, deadline: float) -> float:
        """Return the deadline for the reply of the node that is asked now."""
        return min(attempt_until(now=now, deadline=deadline), max(now, self._enough_at))

    def deliver(self, node: Endpoint, answer: SlotMap | LockError, *, now: float) -> None:
        """Record the map that the node reported, or the error that came instead of a map."""
        if isinstance(answer, LockError):
            self._failures.append(answer)
            return
        if answer.covered >= self._covered:
            self._enough_at = min(self._enough_at, now + OPINIONS_MAX_SECONDS)
        self._heard[node] = answer
        self._masters.update(answer.masters)
        self._queue += [one for one in answer.masters if one not in self._queue]

    def elected(self, *, where: str) -> SlotMap:
        """Return the map to believe; if there is none, raise the error that says why."""
        best = self._best()
        if best is not None:
            return best
        # Raise first an error that a person has to correct; it matters more than nodes that are
        # down.
        for failure in self._failures:
            if isinstance(failure, ConfigurationError | BackendMisbehaved):
                raise failure
        last = self._failures[-1] if self._failures else None
        if isinstance(last, BackendUnavailable):
            raise last
        why = "" if last is None else f": {last}"
        raise BackendUnavailable(f"{where}: no node tells the map{why}") from last

    def doubted(self, elected: SlotMap) -> set[Endpoint]:
        """Return the nodes that were asked or suspected, but did not report the elected map."""
        agree = {
            node for node, reported in self._heard.items() if reported.reported == elected.reported
        }
        return (self._asked.union(self._suspects) - agree) & elected.nodes.union(self._queue)

    def _best(self) -> SlotMap | None:
        found = self._heard.values()
        return max(found, key=lambda one: (self._votes(one), one.covered), default=None)

    def _votes(self, slots: SlotMap) -> int:
        # Count only votes from addresses that are masters on this map, because a seed may be
        # another address of the same master.
        voters = (
            node for node, reported in self._heard.items() if reported.reported == slots.reported
        )
        return sum(node in slots.masters for node in voters)

    def _is_settled(self, slots: SlotMap) -> bool:
        # Count the masters of the previous map too, so that nodes that split off into a cluster of
        # their own do not form a majority.
        voters = max(len(slots.masters), self._count)
        return self._votes(slots) >= min(OPINIONS_ENOUGH, voters // 2 + 1)


# Finds the slots that no node serves, and reports them. No I/O.
#
# The map alone does not show every slot without a node. A node that gave up a slot (CLUSTER
# DELSLOTS) does not announce that, so its peers keep naming it as the owner, and only its own map
# lacks the slot. So each master is asked about its own slots.

SPANS_SHOWN = 8
"""Number of slot spans that a message lists before it only counts the remaining slots."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """Which slots are served in a cluster, according to the map and to the masters themselves."""

    slots: SlotMap
    unserved: frozenset[int]
    unnamed: frozenset[int]
    """Slots whose node is listed without an address ("?")."""
    silent: Mapping[Endpoint, LockError]
    """Masters that did not answer, and why."""

    @classmethod
    def of(cls, slots: SlotMap, views: Mapping[Endpoint, SlotMap | LockError]) -> Coverage:
        """Return which slots are served; `views` has the map that each master itself reported."""
        maps = {node: view for node, view in views.items() if isinstance(view, SlotMap)}
        unserved = (
            slot
            for slot, owner in enumerate(slots.owners)
            if slot not in slots.unnamed
            and (owner is None or (owner in maps and _lacks(maps[owner], slot)))
        )
        silent = {node: view for node, view in views.items() if isinstance(view, LockError)}
        return cls(slots, frozenset(unserved), slots.unnamed, silent)

    def owner_of(self, key: bytes) -> Endpoint | None:
        """Return the node that serves a key; None if there is no such node."""
        slot = slot_of_key(key)
        return None if slot in self.unserved else self.slots.owners[slot]

    def slots_of(self, node: Endpoint) -> list[int]:
        """Return the slots of a node."""
        return [slot for slot, owner in enumerate(self.slots.owners) if owner == node]

    def incomplete(
        self, away: Mapping[Endpoint | None, LockError], *, where: str
    ) -> BackendUnavailable | None:
        """Return the error that names the slots missing from a survey; None if none are missing."""
        reasons = []
        if self.unserved:
            reasons.append(f"no node serves {spans(self.unserved)}")
        if self.unnamed:
            reasons.append(f"{spans(self.unnamed)}: {UNNAMED}")
        for node, error in away.items():
            if node is not None:
                reasons.append(f"{node} ({spans(self.slots_of(node))}) did not answer: {error}")
        if not reasons:
            return None
        return BackendUnavailable(f"{where}: this list is incomplete: {'; '.join(reasons)}")


UNNAMED = (
    'the node is listed without an address ("?"), as cluster-preferred-endpoint-type is hostname '
    "and it announces no host name"
)


def _lacks(own: SlotMap, slot: int) -> bool:
    return own.owners[slot] is None and slot not in own.unnamed


def spans(slots: Collection[int]) -> str:
    """Return the slots in words: "slot 7", "slots 0-99, 200"."""
    found: list[list[int]] = []
    for slot in sorted(slots):
        if found and found[-1][1] == slot - 1:
            found[-1][1] = slot
        else:
            found.append([slot, slot])
    listed = [
        str(first) if first == last else f"{first}-{last}" for first, last in found[:SPANS_SHOWN]
    ]
    rest = len(slots) - sum(last + 1 - first for first, last in found[:SPANS_SHOWN])
    more = f" and {rest} more" if rest else ""
    return f"slot{'s' * (len(slots) != 1)} {', '.join(listed)}{more} of {SLOTS}"
