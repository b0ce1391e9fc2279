"""The ways to open a client: by a URL, or over what an application already has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from lockfast._async.client import AsyncClient
from lockfast.core.staying import StaysHere
from lockfast.options import DEFAULT_REQUEST_TIMEOUT, DEFAULT_TTL, ClientOptions
from lockfast.runtime.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockfast._async.backend import AsyncBackend
    from lockfast.events import Hook


class AsyncOpening(StaysHere):
    """Makes a client of one store, and knows the defaults of its locks."""

    def __init__(
        self,
        url: str | None = None,
        *,
        namespace: str | None = None,
        ttl: float = DEFAULT_TTL,
        label: str | None = None,
        request_timeout: float = DEFAULT_REQUEST_TIMEOUT,
        on_event: Hook | Sequence[Hook] | None = None,
        clock: Clock | None = None,
        **backend_options: object,
    ) -> None:
        from lockfast import urls  # late: only urls knows the backends

        options = ClientOptions(
            ttl=ttl,
            label=label,
            request_timeout=request_timeout,
            on_event=on_event,
            clock=Clock() if clock is None else clock,
        )
        backend = urls.open_backend(
            url,
            flavour="_async",
            namespace=namespace,
            clock=options.clock,
            options=backend_options,
        )
        self._set_up(backend, options)

    @classmethod
    def from_client(
        cls,
        client: object,
        *,
        namespace: str | None = None,
        ttl: float = DEFAULT_TTL,
        label: str | None = None,
        request_timeout: float = DEFAULT_REQUEST_TIMEOUT,
        on_event: Hook | Sequence[Hook] | None = None,
        clock: Clock | None = None,
        **backend_options: object,
    ) -> Self:
        """Return locks where a client that you already have connects to.

        One of redis-py or valkey-py, of this flavour: Redis, RedisCluster, or what
        Sentinel.master_for returns; or a KazooClient, for either flavour. Only its settings are
        read, once: its connections are not used by us but left to you.

        An engine of SQLAlchemy's, a pool or a connection of psycopg's, or a connection of the
        MySQL drivers lends its connections, one for each request, and gets them back as they
        were. Nothing that you give is ever closed by us.
        """
        from lockfast import urls  # late: only urls knows the backends

        options = ClientOptions(
            ttl=ttl,
            label=label,
            request_timeout=request_timeout,
            on_event=on_event,
            clock=Clock() if clock is None else clock,
        )
        backend = urls.adopt_client(
            client,
            flavour="_async",
            namespace=namespace,
            clock=options.clock,
            options=backend_options,
        )
        self = cls.__new__(cls)
        self._set_up(backend, options)
        return self

    @classmethod
    def from_factory(
        cls,
        connect: Callable[[], object],
        *,
        backend: str,
        namespace: str | None = None,
        ttl: float = DEFAULT_TTL,
        label: str | None = None,
        request_timeout: float = DEFAULT_REQUEST_TIMEOUT,
        on_event: Hook | Sequence[Hook] | None = None,
        clock: Clock | None = None,
        **backend_options: object,
    ) -> Self:
        """Return locks over connections that a function of yours makes, each time a new one.

        `backend` says whose: "postgresql" (psycopg), "mysql" or "mariadb" (PyMySQL, in asyncio
        asyncmy). What it returns is ours: it is kept while it is of use, and closed.
        """
        from lockfast import urls  # late: only urls knows the backends

        options = ClientOptions(
            ttl=ttl,
            label=label,
            request_timeout=request_timeout,
            on_event=on_event,
            clock=Clock() if clock is None else clock,
        )
        made = urls.open_by_factory(
            connect,
            backend=backend,
            flavour="_async",
            namespace=namespace,
            clock=options.clock,
            options=backend_options,
        )
        self = cls.__new__(cls)
        self._set_up(made, options)
        return self

    @classmethod
    def from_clients(
        cls,
        clients: Sequence[object],
        *,
        namespace: str | None = None,
        ttl: float = DEFAULT_TTL,
        label: str | None = None,
        request_timeout: float = DEFAULT_REQUEST_TIMEOUT,
        on_event: Hook | Sequence[Hook] | None = None,
        clock: Clock | None = None,
        **backend_options: object,
    ) -> Self:
        """Return locks on several nodes, to each of which one of your clients connects: Redlock.

        Clients of redis-py or valkey-py, of this flavour. As in `from_client`, only their settings
        are read, once.
        """
        from lockfast import urls  # late: only urls knows the backends

        options = ClientOptions(
            ttl=ttl,
            label=label,
            request_timeout=request_timeout,
            on_event=on_event,
            clock=Clock() if clock is None else clock,
        )
        backend = urls.adopt_clients(
            clients,
            flavour="_async",
            namespace=namespace,
            clock=options.clock,
            options=backend_options,
        )
        self = cls.__new__(cls)
        self._set_up(backend, options)
        return self

    @classmethod
    def from_backend(
        cls,
        backend: AsyncBackend,
        *,
        ttl: float = DEFAULT_TTL,
        label: str | None = None,
        request_timeout: float = DEFAULT_REQUEST_TIMEOUT,
        on_event: Hook | Sequence[Hook] | None = None,
        clock: Clock | None = None,
    ) -> Self:
        """Return a client of a backend that was made by hand: third parties, tests."""
        options = ClientOptions(
            ttl=ttl,
            label=label,
            request_timeout=request_timeout,
            on_event=on_event,
            clock=Clock() if clock is None else clock,
        )
        self = cls.__new__(cls)
        self._set_up(backend, options)
        return self

    def __del__(self) -> None:
        # Its locks and leases may live on, and keep the client; if there are none, nothing should.
        client: AsyncClient | None = getattr(self, "_client", None)
        if client is not None and not client.closing.is_begun:
            client.watchdog.end_when_idle()

    def _set_up(self, backend: AsyncBackend, options: ClientOptions) -> None:
        # What may be refused comes first: a client is known to its store and to the exit.
        self._defaults = options.for_locks(shortest_ttl=backend.min_ttl)
        self._client = AsyncClient(backend, options)
