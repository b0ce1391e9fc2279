"""Who serves which slot: what the nodes tell, and which of them to believe; pure.

A node may be wrong for good and answer all the same. One that was removed from the cluster
tells a map without a slot; one that is cut off from its peers tells the map of the moment
before, on which it still serves what another was given since; one that joined another
cluster tells that one's. So a map counts once a majority of the masters on it tell the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockfast.backends.redis import refusals
from lockfast.backends.redis.resp import Refusal, Reply, packed
from lockfast.backends.redis.routing import SLOTS, Endpoint, Remap, attempt_until
from lockfast.errors import BackendMisbehaved, BackendUnavailable, ConfigurationError, LockError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

SLOT_MAP = packed(b"CLUSTER", b"SLOTS")

NAME_THEM = (
    "set cluster-announce-hostname on every node, or cluster-preferred-endpoint-type ip (with "
    "cluster-announce-ip behind a NAT), or unknown-endpoint if all share the host that you ask"
)

PORTS = 65536
NEVER = float("inf")

ENOUGH = 3
"""So many masters that agree are enough, in a cluster of hundreds too."""

OPINIONS = 0.2
"""Once a node has told a map, so many seconds are spent on what others say of it."""


@dataclass(frozen=True, slots=True)
class SlotMap:
    """Who serves which slot, as one node told it; corrected by what is MOVED since."""

    owners: list[Endpoint | None]
    masters: list[Endpoint]
    nodes: frozenset[Endpoint]
    """Masters and replicas."""
    told: frozenset[tuple[int, int, Endpoint]] = frozenset()
    """The same as it was told: from which slot to which is served by whom."""
    unnamed: frozenset[int] = frozenset()
    """Slots whose node is listed as "?"."""

    @property
    def covered(self) -> int:
        """How many slots are served at all."""
        return sum(last + 1 - first for first, last, _ in self.told)

    def correct(self, slot: int, owner: Endpoint) -> None:
        """Know that the slot has moved."""
        self.owners[slot] = owner
        if owner not in self.masters:
            self.masters.append(owner)


# -- reading ---------------------------------------------------------------------------


def read_map(reply: Reply, *, told_by: Endpoint, remap: Remap, where: str) -> SlotMap | LockError:
    """Return the map that a node told, or why that is none."""
    if isinstance(reply, Refusal):
        return _not_told(reply, where=where)
    try:
        slots = slot_map(reply, told_by=told_by, remap=remap)
    except (TypeError, ValueError, LookupError, AttributeError):
        # What the protocol can say is more than what a map can be.
        return BackendMisbehaved(
            f"{where}: {told_by} does not answer CLUSTER SLOTS as a node does: {repr(reply)[:80]}"
        )
    if slots.unnamed and not slots.masters:
        return ConfigurationError(
            f'{where}: {told_by} lists every node without an address ("?"); {NAME_THEM}'
        )
    if not slots.masters:
        return BackendUnavailable(
            f"{where}: {told_by} serves no slots and knows nobody who does; was it removed from "
            "the cluster?"
        )
    return slots


def slot_map(reply: Sequence[Any], *, told_by: Endpoint, remap: Remap) -> SlotMap:
    """Read the answer to CLUSTER SLOTS; whatever is no such answer raises some error."""
    owners: list[Endpoint | None] = [None] * SLOTS
    nodes: set[Endpoint] = set()
    told = set()
    unnamed: set[int] = set()
    for first, last, master, *replicas in reply:
        if not 0 <= first <= last < SLOTS:
            raise ValueError(f"no slots: {first!r} to {last!r}")
        found = [_endpoint(one, told_by) for one in (master, *replicas)]
        endpoints = [None if one is None else remap(one) for one in found]
        owners[first : last + 1] = [endpoints[0]] * (last + 1 - first)
        nodes.update(one for one in endpoints if one is not None)
        if endpoints[0] is None:
            unnamed.update(range(first, last + 1))
        else:
            told.add((first, last, endpoints[0]))
    masters = sorted({owner for _, _, owner in told})
    return SlotMap(owners, masters, frozenset(nodes), frozenset(told), frozenset(unnamed))


def _endpoint(node: Sequence[Any], told_by: Endpoint) -> Endpoint | None:
    host = node[0].decode() if node[0] else ""
    if host == "?":
        # It should announce a host name and has none. Redis calls this an unknown node, which
        # need not be the one that was asked, so there is no address to try.
        return None
    port = int(node[1])
    if not 0 < port < PORTS:
        raise ValueError(f"no port: {port}")
    # No host (unknown-endpoint) or an empty one (the node does not know its own address) means
    # the host that was asked, with this port.
    return Endpoint(host or told_by.host, port)


def _not_told(refusal: Refusal, *, where: str) -> LockError:
    if "cluster support disabled" in refusal.text:
        return ConfigurationError(f"{where} is not a cluster; use redis://")
    return refusals.refused(refusal, where=where)


# -- whom to ask, and whom to believe ----------------------------------------------------


def candidates(
    slots: SlotMap | None,
    *,
    seeds: Iterable[Endpoint],
    suspects: Collection[Endpoint],
    start: float,
) -> list[Endpoint]:
    """Return whom to ask: masters, replicas, seeds; those who failed come last.

    `start` is in [0, 1): not everybody begins with the same node, which may be behind.
    """
    masters = [] if slots is None else slots.masters
    first = int(start * len(masters))
    rest = () if slots is None else sorted(slots.nodes)
    found = dict.fromkeys((*masters[first:], *masters[:first], *rest, *seeds))
    return sorted(found, key=lambda one: one in suspects)


class Poll:
    """Says which node to ask for the map next, and in the end which map to believe.

    Masters that did not fail are asked until a majority agrees. Where that cannot be had, the
    map counts that most of them told. Anybody else is asked only as long as no map was told
    that names as many slots as were served before.
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
        self._count = 0 if known is None else len({owner for _, _, owner in known.told})
        self._covered = SLOTS if known is None else known.covered
        self._asked: set[Endpoint] = set()
        self._heard: dict[Endpoint, SlotMap] = {}
        self._failures: list[LockError] = []
        self._enough_at = NEVER

    def next(self, now: float) -> Endpoint | None:
        """Return whom to ask; None when there is nothing more to learn, or no time for it."""
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
        """Return how long to wait for the answer of the one that is asked now."""
        return min(attempt_until(now=now, deadline=deadline), max(now, self._enough_at))

    def hear(self, node: Endpoint, answer: SlotMap | LockError, *, now: float) -> None:
        """Take what the node told, or why it told nothing."""
        if isinstance(answer, LockError):
            self._failures.append(answer)
            return
        if answer.covered >= self._covered:
            self._enough_at = min(self._enough_at, now + OPINIONS)
        self._heard[node] = answer
        self._masters.update(answer.masters)
        self._queue += [one for one in answer.masters if one not in self._queue]

    def elected(self, *, where: str) -> SlotMap:
        """Return the map to believe, or raise why there is none."""
        best = self._best()
        if best is not None:
            return best
        # A mistake that somebody has to mend is more to the point than who else was away.
        for failure in self._failures:
            if isinstance(failure, ConfigurationError | BackendMisbehaved):
                raise failure
        last = self._failures[-1] if self._failures else None
        if isinstance(last, BackendUnavailable):
            raise last
        why = "" if last is None else f": {last}"
        raise BackendUnavailable(f"{where}: no node tells the map{why}") from last

    def doubted(self, elected: SlotMap) -> set[Endpoint]:
        """Return who failed, before or now, and did not tell what the others believe."""
        agree = {node for node, told in self._heard.items() if told.told == elected.told}
        return (self._asked.union(self._suspects) - agree) & elected.nodes.union(self._queue)

    def _best(self) -> SlotMap | None:
        found = self._heard.values()
        return max(found, key=lambda one: (self._votes(one), one.covered), default=None)

    def _votes(self, slots: SlotMap) -> int:
        # Only of masters on it, by their names there: a seed may be one of them by another name.
        voters = (node for node, told in self._heard.items() if told.told == slots.told)
        return sum(node in slots.masters for node in voters)

    def _is_settled(self, slots: SlotMap) -> bool:
        # Of those that there were, too: whoever left for a cluster of its own is no majority.
        voters = max(len(slots.masters), self._count)
        return self._votes(slots) >= min(ENOUGH, voters // 2 + 1)
