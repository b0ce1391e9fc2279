"""How long a request waits for SQLite's one writer, who may be the worker's own transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from holdfast.connections.dialects import SQLITE
from holdfast.connections.statements import Statement

if TYPE_CHECKING:
    from types import TracebackType

    from holdfast.connections._async.callers import AsyncCallersConnection

_SETTING = "PRAGMA busy_timeout"


class AsyncWaitsForWriters:
    """A block in which a connection waits so many seconds; the other databases know no such thing.

    Afterwards it waits as long as before: a pool may lend it to others.
    """

    def __init__(self, callers: AsyncCallersConnection, seconds: float) -> None:
        self._callers = callers
        self._seconds = seconds
        self._before = 0

    async def __aenter__(self) -> Self:
        if self._callers.dialect is SQLITE:
            [[self._before]] = (await self._callers.run(Statement(_SETTING))).rows
            await self._set(min(self._before, int(self._seconds * 1000)))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._callers.dialect is SQLITE:
            await self._set(self._before)

    async def _set(self, milliseconds: int) -> None:
        await self._callers.run(Statement(f"{_SETTING} = {milliseconds}"))
