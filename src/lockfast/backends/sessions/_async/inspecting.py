"""What people see of the lines, and the operator's break; on one session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.backends.sessions import telling
from lockfast.backends.sessions._async.recipe import AsyncRecipe
from lockfast.model import Inspection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.backends.sessions.answers import Seen
    from lockfast.backends.sessions.line import Entry, Line
    from lockfast.model import Holder


class AsyncInspecting(AsyncRecipe):
    """Reads lines for people, with all that was done before they asked."""

    async def inspect(self, name: str, *, confirm: bool = False, deadline: float) -> Inspection:
        """Return who holds and who waits; with `confirm`, as a quorum knows it."""
        line = await self._wire.look(name, confirm=confirm, deadline=deadline)
        seen = await self._read(line, line.entries, deadline)
        inside, waiting = line.entries[: line.inside], line.entries[line.inside :]
        read, rest = seen[: line.inside], seen[line.inside :]
        return Inspection(
            name=name,
            capacity=line.capacity,
            holders=telling.holders_of(inside, read),
            line=telling.waiters_of(waiting, rest),
            last_token=max((one.token for one in read if one is not None), default=None),
            closing=telling.closing_of(inside, read),
        )

    async def names(self, prefix: str, *, deadline: float) -> list[str]:
        """Return the names that the store knows, in byte order."""
        names = await self._wire.names(deadline=deadline)
        return sorted((name for name in names if name.startswith(prefix)), key=str.encode)

    async def break_(self, name: str, *, token: int | None, deadline: float) -> tuple[Holder, ...]:
        """Delete what those who hold have, or one of them, and return whose it was.

        Only an operator deletes what a living session keeps, so its holder knows at its next
        renewal that it was broken. What is deleted is what was read: by its key and its token.
        """
        line = await self._wire.look(name, confirm=False, deadline=deadline)
        inside = line.entries[: line.inside]
        found = [
            (entry, one)
            for entry, one in zip(inside, await self._read(line, inside, deadline), strict=True)
            if one is not None
            if telling.holders_of([entry], [one]) and token in (None, one.token)
        ]
        if not found:
            return ()
        deleted = await self._wire.remove(
            [(line.key_of(entry), one.token) for entry, one in found], deadline=deadline
        )
        broken = [pair for pair, was_there in zip(found, deleted, strict=True) if was_there]
        return telling.holders_of([entry for entry, _ in broken], [one for _, one in broken])

    async def _read(
        self, line: Line, entries: Sequence[Entry], deadline: float
    ) -> Sequence[Seen | None]:
        asked = [(line.key_of(entry), None) for entry in entries]
        return await self._wire.read(asked, line=line, deadline=deadline)
