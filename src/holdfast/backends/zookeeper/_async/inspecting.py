"""What people see of the nodes, and the operator's break; on one session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.backends.zookeeper import refusals, requests, telling
from holdfast.backends.zookeeper._async.looking import TOGETHER
from holdfast.backends.zookeeper._async.recipe import AsyncRecipe
from holdfast.backends.zookeeper.name_nodes import Listing
from holdfast.backends.zookeeper.nodes import component, text_of
from holdfast.model import Inspection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.backends.zookeeper.answers import Answer
    from holdfast.backends.zookeeper.nodes import Node
    from holdfast.model import Holder


class AsyncInspecting(AsyncRecipe):
    """Reads the line of a name after a `sync`, so that what was done before is seen."""

    async def inspect(self, name: str, *, deadline: float) -> Inspection:
        """Return who holds and who waits."""
        listing, door = await self._look(name, deadline)
        answers = await self._read(door, listing.line, deadline)
        inside, waiting = listing.line[: listing.inside], listing.line[listing.inside :]
        read, rest = answers[: listing.inside], answers[listing.inside :]
        tokens = (answer[1].czxid for answer in read if not refusals.is_missing(answer))
        return Inspection(
            name=name,
            capacity=listing.capacity,
            holders=telling.holders_of(inside, read),
            line=telling.waiters_of(waiting, rest),
            last_token=max(tokens, default=None),
            closing=telling.closing_of(inside, read),
        )

    async def names(self, prefix: str, *, deadline: float) -> list[str]:
        """Return the names that have a node, in byte order."""
        root = self._address.root
        _, answer = await self._ask(
            requests.Sync(root), requests.GetChildren2(root, None), deadline=deadline
        )
        children = [] if refusals.is_missing(answer) else answer[0]
        return sorted(
            (name for child in children if (name := _name(child)) and name.startswith(prefix)),
            key=str.encode,
        )

    async def break_(self, name: str, *, token: int | None, deadline: float) -> tuple[Holder, ...]:
        """Delete the nodes of those who hold, or of one, and return whose they were.

        Only an operator deletes a node of a living session, so its holder knows at its next
        renewal that it was broken. No two claims ever have a node of the same name, so what is
        deleted is what was read.
        """
        listing, door = await self._look(name, deadline)
        inside = listing.line[: listing.inside]
        answers = await self._read(door, inside, deadline)
        found = [
            (node, answer)
            for node, answer in zip(inside, answers, strict=True)
            if telling.holders_of([node], [answer]) and token in (None, answer[1].czxid)
        ]
        if not found:
            return ()
        deleted = await self._ask(
            *(requests.Delete(f"{door}/{node.name}", -1) for node, _ in found), deadline=deadline
        )
        pairs = zip(found, deleted, strict=True)
        broken = [one for one, answer in pairs if answer is True]
        return telling.holders_of([node for node, _ in broken], [read for _, read in broken])

    async def _look(self, name: str, deadline: float) -> tuple[Listing, str]:
        door = self._doors.of(name)
        _, answer = await self._ask(
            requests.Sync(door.path), requests.GetChildren2(door.path, None), deadline=deadline
        )
        if refusals.is_missing(answer):
            return Listing([], 0), door.path
        return await self._listing(door, answer, deadline), door.path

    async def _read(self, door: str, nodes: Sequence[Node], deadline: float) -> list[Answer]:
        answers: list[Answer] = []
        for i in range(0, len(nodes), TOGETHER):
            part = nodes[i : i + TOGETHER]
            answers += await self._ask(
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
