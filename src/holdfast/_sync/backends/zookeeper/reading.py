# Generated from src/holdfast/_async/backends/zookeeper/reading.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""What people see of the nodes, and the operator's break; on one session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast._sync.backends.zookeeper.claiming import Claiming, Listing, holders_of
from holdfast.ensemble import records, refusals, requests
from holdfast.ensemble.nodes import component, text_of
from holdfast.model import Inspection, Waiter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.ensemble.answers import Answer
    from holdfast.ensemble.nodes import Node
    from holdfast.model import Holder

TOGETHER = 500
"""As many nodes are asked for in one flight."""


class Reading(Claiming):
    """Reads the line of a name after a `sync`, so that what was done before is seen."""

    def inspect(self, name: str, *, deadline: float) -> Inspection:
        """Return who holds and who waits."""
        listing, door = self._look(name, deadline)
        answers = self._read(door, listing.line, deadline)
        inside = listing.inside
        waiting = zip(listing.line[inside:], answers[inside:], strict=True)
        owners = [
            (node, records.owner_in(answer[0]))
            for node, answer in waiting
            if not refusals.is_missing(answer)
        ]
        holders = holders_of(listing.line[:inside], answers[:inside])
        return Inspection(
            name=name,
            capacity=listing.capacity,
            holders=holders,
            line=tuple(
                Waiter(owner, node.weight, place) for place, (node, owner) in enumerate(owners, 1)
            ),
            last_token=max((one.token or 0 for one in holders), default=0) or None,
        )

    def names(self, prefix: str, *, deadline: float) -> list[str]:
        """Return the names that have a node, in byte order."""
        root = self._address.root
        _, answer = self._ask(
            requests.Sync(root), requests.GetChildren2(root, None), deadline=deadline
        )
        children = [] if refusals.is_missing(answer) else answer[0]
        return sorted(
            (name for child in children if (name := _name(child)) and name.startswith(prefix)),
            key=str.encode,
        )

    def break_(self, name: str, *, deadline: float) -> tuple[Holder, ...]:
        """Delete the nodes of those who hold, and return whose they were.

        Only an operator deletes a node of a living session, so its holder knows at its next
        renewal that it was broken.
        """
        listing, door = self._look(name, deadline)
        holders = listing.line[: listing.inside]
        answers = self._read(door, holders, deadline)
        if not holders:
            return ()
        deleted = self._ask(
            *(requests.Delete(f"{door}/{one.name}", -1) for one in holders), deadline=deadline
        )
        broken = [number for number, answer in enumerate(deleted) if answer is True]
        return holders_of([holders[i] for i in broken], [answers[i] for i in broken])

    def _look(self, name: str, deadline: float) -> tuple[Listing, str]:
        door = self._doors.of(name)
        _, answer = self._ask(
            requests.Sync(door.path), requests.GetChildren2(door.path, None), deadline=deadline
        )
        if refusals.is_missing(answer):
            return Listing([], 0), door.path
        return self._listing(door, answer, deadline), door.path

    def _read(self, door: str, nodes: Sequence[Node], deadline: float) -> list[Answer]:
        answers: list[Answer] = []
        for i in range(0, len(nodes), TOGETHER):
            part = nodes[i : i + TOGETHER]
            answers += self._ask(
                *(requests.GetData(f"{door}/{one.name}", None) for one in part), deadline=deadline
            )
        return answers


def _name(child: str) -> str | None:
    """Return the name behind a node, or None if it is none of ours."""
    try:
        name = text_of(child)
    except ValueError:
        return None
    return name if component(name) == child else None
