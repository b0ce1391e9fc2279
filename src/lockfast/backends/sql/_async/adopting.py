"""What makes a store's backend one that takes what the application has, or a function of it."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, ClassVar, Self

from lockfast.backends.sql._async.backend import checked_connections
from lockfast.backends.sql._async.lending import AsyncLender
from lockfast.backends.sql._async.sources import (
    AsyncConnectionSource,
    AsyncEngineSource,
    AsyncFactorySource,
    AsyncPoolSource,
)
from lockfast.backends.sql._async.wire import MOST
from lockfast.backends.sql.clients import is_engine, is_pool
from lockfast.errors import ConfigurationError
from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockfast.backends.sql._async.sources import AsyncSource
    from lockfast.runtime.clock import Clock


class AsyncAdopting:
    """Two more ways to make a backend; stands before the others among the bases of its class."""

    _scheme: ClassVar[str]
    _lent_wire: ClassVar[Callable[..., Any]]

    @staticmethod
    def _where_of(client: Any) -> str:  # noqa: ANN401 - a stranger's
        """Return where an engine, a pool or a connection leads, for people: without a password."""
        raise NotImplementedError

    @classmethod
    def from_client(cls, client: Any, *, clock: Clock, **options: Any) -> Self:  # noqa: ANN401 - a stranger's
        """Return locks over what the application has: an engine, a pool or a connection.

        Each request takes a connection of it, and gives it back as it was.
        """
        return cls._over(_source_of(client), cls._where_of(client), clock, **options)

    @classmethod
    def from_factory(
        cls,
        connect: Callable[[], object],
        *,
        clock: Clock,
        **options: Any,  # noqa: ANN401 - see `_over`
    ) -> Self:
        """Return locks over connections that a function makes, which are then ours."""
        if runtime.FLAVOUR == "sync" and inspect.iscoroutinefunction(connect):
            raise ConfigurationError(
                "this function has to be awaited; give it to lockfast.AsyncLocks.from_factory"
            )
        where = f"{cls._scheme}:// by your function"
        return cls._over(AsyncFactorySource(connect), where, clock, **options)

    @classmethod
    def _over(
        cls,
        source: AsyncSource,
        where: str,
        clock: Clock,
        *,
        connections: int | str = MOST,
        **options: Any,  # noqa: ANN401 - the namespace, and where the store has its tables
    ) -> Self:
        self = cls.__new__(cls)
        lender = AsyncLender(source, where=where, clock=clock)
        wire = cls._lent_wire(lender, clock=clock, most=checked_connections(connections))
        self._set_up(wire, clock=clock, **options)  # type: ignore[attr-defined]
        return self


def _source_of(client: Any) -> AsyncSource:  # noqa: ANN401 - a stranger's
    if is_engine(client):
        return AsyncEngineSource(client)
    return AsyncPoolSource(client) if is_pool(client) else AsyncConnectionSource(client)
