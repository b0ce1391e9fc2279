"""Which slots cannot be asked, and how that is reported; pure.

The map alone does not show every slot without a node. A node that gave up a slot (CLUSTER
DELSLOTS) announces it to nobody: its peers keep naming it as the owner, and only its own map
lacks the slot. So each master is asked about its own slots.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockfast.backends.redis.cluster.maps import SlotMap
from lockfast.backends.redis.routing import SLOTS, Endpoint, slot_of_key
from lockfast.errors import BackendUnavailable, LockError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

MOST_SPANS = 8
"""Spans of slots that a message lists before it only counts the rest."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the nodes of a cluster serve, by the map and by their own word."""

    slots: SlotMap
    unserved: frozenset[int]
    unnamed: frozenset[int]
    """Slots whose node is listed without an address ("?")."""
    silent: Mapping[Endpoint, LockError]
    """Masters that did not answer, and why."""

    @classmethod
    def of(cls, slots: SlotMap, views: Mapping[Endpoint, SlotMap | LockError]) -> Coverage:
        """Return what is served; `views` are the maps that the masters themselves give."""
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
        """Return the node to ask for a key; None if there is none."""
        slot = slot_of_key(key)
        return None if slot in self.unserved else self.slots.owners[slot]

    def slots_of(self, node: Endpoint) -> list[int]:
        """Return the slots of a node."""
        return [slot for slot, owner in enumerate(self.slots.owners) if owner == node]

    def incomplete(
        self, away: Mapping[Endpoint | None, LockError], *, where: str
    ) -> BackendUnavailable | None:
        """Return the error that says which slots could not be asked; None if all could."""
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
        str(first) if first == last else f"{first}-{last}" for first, last in found[:MOST_SPANS]
    ]
    rest = len(slots) - sum(last + 1 - first for first, last in found[:MOST_SPANS])
    more = f" and {rest} more" if rest else ""
    return f"slot{'s' * (len(slots) != 1)} {', '.join(listed)}{more} of {SLOTS}"
