# Generated from src/lockfast/client/_async/locks.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The public client, which makes the locks."""

from __future__ import annotations

import functools
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, ParamSpec, Self, TypeVar, Unpack, overload

from lockfast.client._sync.adoption import Adoption
from lockfast.client._sync.all_of import AllOf
from lockfast.client._sync.client import Client
from lockfast.client._sync.lock import Lock, RWLock, Semaphore, refuse_other_flavour
from lockfast.client._sync.sharded import Sharded
from lockfast.core.lease_text import no_sequencers, sequencer_from_text
from lockfast.core.naming import (
    checked_name,
    checked_prefix,
    is_bare,
    locked_without_name,
    name_for_call,
)
from lockfast.core.sharding import stripe_name
from lockfast.errors import ConfigurationError, NotAcquired, TokenUnavailable
from lockfast.model import TokenQuality
from lockfast.options import (
    DEFAULT_REQUEST_TIMEOUT,
    DEFAULT_TTL,
    UNSET,
    AdoptKeywords,
    ClientOptions,
    LockKeywords,
    LockOptions,
    checked_if_held,
    checked_keywords,
    checked_owner,
    checked_skipped,
    checked_stripes,
    checked_token,
    lock_options,
)
from lockfast.runtime import threads as runtime
from lockfast.runtime.clock import Clock
from lockfast.runtime.fork import NotPicklable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType
    from typing import Literal

    from lockfast.backends._sync.backend import Backend
    from lockfast.client._sync.lease import Lease
    from lockfast.events import Hook
    from lockfast.model import Capabilities, Finding, Holder, Inspection
    from lockfast.observe.advice import Advice


P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")


class Locks(NotPicklable):
    """A client of one store; it makes the locks.

    Nothing is connected before the first use. Threads may share one client; in asyncio a client
    belongs to one event loop, and another loop needs its own. Close it, or use it in `with`.

    - `url`: which store, such as `redis://host`; None takes the environment variable LOCKFAST_URL,
      or else the embedded file of this user.
    - `namespace`: separates applications that share a store; None takes LOCKFAST_NAMESPACE, or else
      `lockfast`.
    - `ttl`: how long the store keeps a lock that is not renewed, in seconds; each lock may have its
      own.
    - `label`: a name for this client, shown to waiters and by `lockfast ls`.
    - `request_timeout`: how long one request to the store may take, in seconds.
    - `on_event`: a function that is called with each event of a lease, or a list of such functions.
    - `clock`: another clock, for tests.
    - `backend_options`: any options that the store accepts in the query string of its URL.
    """

    # -- how to open a client: by URL, or over something that the application has ---------

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
        from lockfast import urls  # imported late, because `urls` knows all backends

        clock = Clock() if clock is None else clock
        options = ClientOptions(
            ttl=ttl, label=label, request_timeout=request_timeout, on_event=on_event, clock=clock
        )
        self._open(functools.partial(urls.open_backend, url), namespace, options, backend_options)

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
        """Return locks on the store to which a client of yours connects.

        From a redis-py or valkey-py client of this flavour (Redis, RedisCluster, or what
        Sentinel.master_for returns), or from a KazooClient for either flavour, only the settings
        are read, once. The client's connections stay yours, and we do not use them.

        From an SQLAlchemy engine, a psycopg pool or connection, or a connection of a MySQL driver,
        we borrow a connection for each request, and return it as it was. We never close anything
        that you pass in.
        """
        from lockfast import urls  # imported late, because `urls` knows all backends

        clock = Clock() if clock is None else clock
        options = ClientOptions(
            ttl=ttl, label=label, request_timeout=request_timeout, on_event=on_event, clock=clock
        )
        opened = functools.partial(urls.adopt_client, client)
        self = cls.__new__(cls)
        return self._open(opened, namespace, options, backend_options)

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
        """Return locks over connections that your function makes, a new one at each call.

        `backend` is the kind of the connections: "postgresql" (psycopg), "mysql" or "mariadb"
        (PyMySQL, or asyncmy in asyncio). The connections then belong to us: we keep them while they
        are useful, then close them.
        """
        from lockfast import urls  # imported late, because `urls` knows all backends

        clock = Clock() if clock is None else clock
        options = ClientOptions(
            ttl=ttl, label=label, request_timeout=request_timeout, on_event=on_event, clock=clock
        )
        opened = functools.partial(urls.open_by_factory, connect, backend=backend)
        self = cls.__new__(cls)
        return self._open(opened, namespace, options, backend_options)

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
        """Return Redlock locks on several nodes, one node for each of your clients.

        The clients are redis-py or valkey-py clients of this flavour. As in `from_client`, only the
        settings of the clients are read, once.
        """
        from lockfast import urls  # imported late, because `urls` knows all backends

        clock = Clock() if clock is None else clock
        options = ClientOptions(
            ttl=ttl, label=label, request_timeout=request_timeout, on_event=on_event, clock=clock
        )
        opened = functools.partial(urls.adopt_clients, clients)
        self = cls.__new__(cls)
        return self._open(opened, namespace, options, backend_options)

    @classmethod
    def from_backend(
        cls,
        backend: Backend,
        *,
        ttl: float = DEFAULT_TTL,
        label: str | None = None,
        request_timeout: float = DEFAULT_REQUEST_TIMEOUT,
        on_event: Hook | Sequence[Hook] | None = None,
        clock: Clock | None = None,
    ) -> Self:
        """Return a client of a backend object that you made, for third-party backends and tests."""
        clock = Clock() if clock is None else clock
        options = ClientOptions(
            ttl=ttl, label=label, request_timeout=request_timeout, on_event=on_event, clock=clock
        )
        self = cls.__new__(cls)
        return self._set_up(backend, options)

    def _open(
        self,
        opened: Callable[..., Backend],
        namespace: str | None,
        options: ClientOptions,
        backend_options: dict[str, object],
    ) -> Self:
        backend = opened(
            flavour="_sync", namespace=namespace, clock=options.clock, options=backend_options
        )
        return self._set_up(backend, options)

    def _set_up(self, backend: Backend, options: ClientOptions) -> Self:
        # Check the options first, because a client registers itself with its store, and for being
        # closed at exit.
        self._defaults = options.for_locks(shortest_ttl=backend.min_ttl)
        self._client = Client(backend, options)
        return self

    # -- locks -------------------------------------------------------------------------

    def lock(self, name: str, **options: Unpack[LockKeywords]) -> Lock:
        """Return a lock by name; no request is sent before it is acquired.

        - `name`: which lock, any text of up to 512 bytes; all users of a name share one lock.
        - `ttl`: how long the store keeps it without a renewal, in seconds; None takes the client's.
        - `timeout`: how long to wait for it, in seconds; None waits for ever, 0 tries once.
        - `renew`: whether the lease is renewed in the background while it is held.
        - `reentrant`: whether the holder may enter it again.
        - `owner`: the name of an owner that may hold it several times, in several processes.
        - `max_hold`: after how many seconds the lease is lost, even if it is renewed.
        - `min_hold`: for how many seconds after the grant it stays closed, released or not.
        - `lock_delay`: for how many seconds it stays closed after a holder failed.
        - `on_lost`: called with the lease when it is lost.
        """
        return Lock(self._client, name, self._options(options))

    def rwlock(self, name: str, **options: Unpack[LockKeywords]) -> RWLock:
        """Return a read-write lock by name, whose `.read()` and `.write()` are locks.

        - `name`: as for `lock()`. All users of the name must use it as a read-write lock.
        - `options`: as for `lock()`, for both locks, except `owner`.
        """
        return RWLock(self._client, name, self._options(options))

    def semaphore(
        self, name: str, *, capacity: int, permits: int = 1, **options: Unpack[LockKeywords]
    ) -> Semaphore:
        """Return a semaphore by name: each acquire takes `permits` of the capacity.

        - `name`: as for `lock()`.
        - `capacity`: how many permits there are; all users of the name must pass the same number.
        - `permits`: how many of them one acquire takes.
        - `options`: as for `lock()`, except `owner`; a semaphore is never re-entrant.
        """
        return Semaphore(
            self._client, name, self._options(options), capacity=capacity, permits=permits
        )

    def all(self, *names: str, **options: Unpack[LockKeywords]) -> AllOf:
        """Return an object that holds all of the names or none.

        - `names`: which locks, as separate arguments, each once. They are taken in a fixed order,
          whatever yours is, so two callers that hold nothing else cannot wait for each other.
        - `options`: as for `lock()`, for each name, except `owner`; `timeout` covers all names
          together.
        """
        return AllOf(self._client, names, self._options(options))

    def striped(
        self, name: str, key: object, *, stripes: int = 64, **options: Unpack[LockKeywords]
    ) -> Lock:
        """Return the lock for a key: one of `stripes` locks, the same for every user of the key.

        This is for unlimited numbers of keys, where one lock per key would be too many; two keys
        may share a lock. Its name looks like `user#17/64`. If you change `stripes` while other
        processes use the old value, the lock protects nothing.

        - `name`: what the keys identify, such as `user`.
        - `key`: a str, an int, bytes, a UUID, or a tuple of these; 17 and "17" are the same.
        - `stripes`: how many locks there are; all users of the name must pass the same number.
        - `options`: as for `lock()`.
        """
        full = stripe_name(name, key, stripes=checked_stripes(stripes))
        return Lock(self._client, full, self._options(options))

    def sharded(self, name: str, *, shards: int, **options: Unpack[LockKeywords]) -> Sharded:
        """Return a lock that is split into shards; `acquire_any()` takes any free shard.

        - `name`: as for `lock()`; the shards are the locks `name#0`, `name#1` and so on.
        - `shards`: how many shards there are. More may be added while other processes run.
        - `options`: as for `lock()`, for each shard, except `owner`.
        """
        return Sharded(self._client, name, self._options(options), shards=shards)

    @overload
    def locked(
        self,
        name: str | Callable[..., str],
        *,
        if_held: Literal["wait", "raise"] = "wait",
        **options: Unpack[LockKeywords],
    ) -> Callable[[Callable[P, R]], Callable[P, R]]: ...

    @overload
    def locked(
        self,
        name: str | Callable[..., str],
        *,
        if_held: Literal["skip"],
        **options: Unpack[LockKeywords],
    ) -> Callable[[Callable[P, R]], Callable[P, R | None]]: ...

    @overload
    def locked(
        self,
        name: str | Callable[..., str],
        *,
        if_held: Literal["skip"],
        skipped: S,
        **options: Unpack[LockKeywords],
    ) -> Callable[[Callable[P, R]], Callable[P, R | S]]: ...

    def locked(
        self,
        name: str | Callable[..., str],
        *,
        if_held: Literal["wait", "skip", "raise"] = "wait",
        skipped: object = UNSET,
        **options: Unpack[LockKeywords],
    ) -> Callable[[Callable[P, R]], Callable[P, object]]:
        """Decorate a function so that it runs under a lock named after its arguments.

        - `name`: the name of the lock, in which fields as in `"order:{order_id}"` are filled in
          from the call's arguments, or a function that takes the same arguments and returns the
          name.
        - `if_held`: what a call does when the name is held: `"wait"`, return without running
          (`"skip"`), or raise NotAcquired (`"raise"`).
        - `skipped`: what a skipped call returns; None by default.
        - `options`: as for `lock()`.
        """
        if is_bare(name, caller=sys._getframe(1)):  # noqa: SLF001 - the only way to get a frame
            raise locked_without_name(name)
        instead = checked_skipped(skipped, if_held=checked_if_held(if_held))
        lock_options = self._options(options)
        if if_held != "wait":
            lock_options = replace(lock_options, timeout=0.0)

        def decorate(
            function: Callable[P, R],
        ) -> Callable[P, object]:
            refuse_other_flavour(function)
            name_for = name_for_call(name, function)

            @functools.wraps(function)
            def locked(*args: P.args, **kwargs: P.kwargs) -> object:
                lock = Lock(self._client, name_for(*args, **kwargs), lock_options)
                has_entered = False
                try:
                    with lock:
                        has_entered = True
                        return function(*args, **kwargs)
                except NotAcquired:
                    if if_held == "skip" and not has_entered:
                        return instead
                    raise

            return locked

        return decorate

    def adopt(self, text: str, **options: Unpack[AdoptKeywords]) -> Lease:
        """Return a lease that was detached, by this client or by another of the same store.

        It keeps its name, its token and its ttl. Raises LeaseLost if the lease has already ended.
        The options are renew, max_hold and on_lost.
        """
        checked_keywords(options, accepted=("renew", "max_hold", "on_lost"), what="adopt()")
        attempt = Adoption(self._client, text, LockOptions(**options))
        try:
            lease = attempt.adopt()
            attempt.owes = False  # the caller has it now, as no interrupt strikes before the return
            return lease  # noqa: TRY300 - as above
        except BaseException:
            attempt.leave_behind()
            raise

    def _options(self, given: LockKeywords) -> LockOptions:
        return lock_options(given, ttl=self._defaults.ttl) if given else self._defaults

    # -- for operators -----------------------------------------------------------------

    @property
    def capabilities(self) -> Capabilities:
        """What the backend supports, as it declares."""
        return self._client.backend.capabilities

    @property
    def location(self) -> str:
        """Where the store is, for people to read; without the password."""
        return self._client.backend.location

    def inspect(self, name: str) -> Inspection:
        """Return who holds a name and who waits for it; the result may be out of date."""
        self._client.enter()
        deadline = self._client.request_deadline()
        return self._client.backend.inspect(checked_name(name), deadline=deadline)

    @runtime.must_be_awaited
    def is_current(self, sequencer: str) -> bool:
        """Whether the lease that `lease.sequencer` describes still holds, as the store sees it.

        The result is never true for a lease that ended before this call (released, expired, broken
        or taken), or that another store or namespace granted. The lease may end a moment later, so
        compare tokens where that matters.
        """
        client = self._client
        client.enter()
        asked = sequencer_from_text(sequencer)
        if not self.capabilities.sequencers:
            raise no_sequencers(asked.name)
        deadline = client.request_deadline()
        return asked.is_current_in(client.backend.attest(asked.name, deadline=deadline))

    def survey(self, prefix: str = "") -> Iterator[Inspection]:
        """Yield every name in use that starts with the prefix, in byte order.

        If a part of the store cannot be reached, this yields the names in the other parts, and then
        raises BackendUnavailable, which says what is missing. Without an error the list is
        complete.
        """
        self._client.enter()
        deadline = self._client.request_deadline()
        for one in self._client.backend.survey(checked_prefix(prefix), deadline=deadline):
            yield one

    @runtime.must_be_awaited
    def break_(
        self, name: str, *, token: int | None = None, owner: str | None = None
    ) -> tuple[Holder, ...]:
        """End all leases on a name, including our own, and return their holders.

        With a token, this ends only the lease that has exactly that token; with an owner, only the
        leases of that explicit owner, in any process. If the name has another holder by then, no
        lease is ended and nothing is returned. A holder in another client notices the end only at
        its next renewal; until then, only the token can stop it. Leases of this client are notified
        at once.
        """
        client = self._client
        client.enter()
        checked_name(name)
        if checked_token(token) and self.capabilities.token_quality is TokenQuality.NONE:
            raise TokenUnavailable("this backend has no tokens to break by", name=name)
        if checked_owner(owner) and not self.capabilities.explicit_owner:
            raise ConfigurationError("this backend has no explicit owners (owner=)", name=name)
        deadline = client.request_deadline()
        broken = client.backend.break_(name, token=token, owner=owner, deadline=deadline)
        tokens = {one.token for one in broken}
        for hold in client.holds.on(name):
            if hold.grant.token in tokens:
                hold.lose("broken")
        return broken

    def diagnose(self) -> tuple[Finding, ...]:
        """Return what this deployment guarantees, and what it does not."""
        self._client.enter()
        deadline = self._client.request_deadline()
        return tuple(self._client.backend.diagnose(deadline=deadline))

    def advice(self) -> tuple[Advice, ...]:
        """Return advice on the ttls and lines of this client's locks, from the events so far.

        This sends no request. The events come from an advisor, which is passed to the client as
        `on_event=lockfast.observe.Advisor()`. The most recent events may be missing.
        """
        from lockfast.observe.advisor import Advisor

        for hook in self._client.dispatcher.hooks:
            if isinstance(hook, Advisor):
                return hook.advice()
        raise ConfigurationError(
            "nobody has listened, so there is no advice: give the client an advisor, "
            "on_event=lockfast.observe.Advisor()"
        )

    # -- closing -----------------------------------------------------------------------

    def close(self) -> None:
        """Notify every lease of its loss, release all unused holds, and close the connections."""
        self._client.close()

    def __del__(self) -> None:
        # Locks and leases may outlive this object and keep the client alive. If there are none,
        # nothing should keep it alive.
        client: Client | None = getattr(self, "_client", None)
        if client is not None and not client.closing.is_begun:
            client.watchdog.end_when_idle()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.location}>"
