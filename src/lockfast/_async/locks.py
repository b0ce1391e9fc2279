"""The client: where locks come from."""

from __future__ import annotations

import functools
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, Unpack, overload

from lockfast._async.adopting import AsyncAdoption
from lockfast._async.lock import AsyncLock, refuse_other_flavour
from lockfast._async.many import AsyncAllOf
from lockfast._async.opening import AsyncOpening
from lockfast._async.rwlock import AsyncRWLock
from lockfast._async.semaphore import AsyncSemaphore
from lockfast._async.sharded import AsyncSharded
from lockfast.core.decorating import is_bare, locked_without_name
from lockfast.core.naming import checked_name, checked_prefix, name_for_call
from lockfast.core.sequencing import from_text, no_sequencers
from lockfast.core.striping import stripe_name
from lockfast.errors import ConfigurationError, NotAcquired, TokenUnavailable
from lockfast.model import TokenQuality
from lockfast.options import (
    UNSET,
    AdoptKeywords,
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
from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
    from types import TracebackType
    from typing import Literal

    from lockfast._async.lease import AsyncLease
    from lockfast.model import Capabilities, Finding, Holder, Inspection
    from lockfast.observe.advice import Advice

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")


class AsyncLocks(AsyncOpening):
    """A client of one store; locks come from it.

    Nothing is connected before the first use. In threads one client serves them all; in asyncio
    it belongs to one event loop, and another one needs a client of its own. Close it, or use it
    in `async with`.

    - `url`: which store, as `redis://host`; None is what the environment variable LOCKFAST_URL
      says, else the embedded file of this user.
    - `namespace`: keeps applications apart that share a store; None is what LOCKFAST_NAMESPACE
      says, else `lockfast`.
    - `ttl`: how long the store keeps a lock that is not renewed, in seconds; each lock may have
      another one.
    - `label`: who this is, for people: shown to those who wait, and by `lockfast ls`.
    - `request_timeout`: how long one request to the store may take, in seconds.
    - `on_event`: a function that is called with each event of a lease, or a list of them.
    - `clock`: another clock, for tests.
    - `backend_options`: whatever the store takes in its URL after a question mark.
    """

    # -- locks -------------------------------------------------------------------------

    def lock(self, name: str, **options: Unpack[LockKeywords]) -> AsyncLock:
        """Return a lock by name; nothing is asked of the store before it is acquired.

        - `name`: which lock, any text of up to 512 bytes; whoever uses the same name means the
          same lock.
        - `ttl`: how long the store keeps it without a renewal, in seconds; the client's if None.
        - `timeout`: how long to wait for it, in seconds; None waits for ever, 0 tries once.
        - `renew`: whether the lease is renewed in the background while it is held.
        - `reentrant`: whether whoever holds it may enter it again.
        - `owner`: the name of an owner that may hold it several times, in several processes.
        - `max_hold`: after how many seconds the lease is lost, however well it is renewed.
        - `min_hold`: for how many seconds after the grant it stays closed, released or not.
        - `lock_delay`: for how many seconds it stays closed after a holder that failed.
        - `on_lost`: is called with the lease when that is lost.
        """
        return AsyncLock(self._client, name, self._options(options))

    def rwlock(self, name: str, **options: Unpack[LockKeywords]) -> AsyncRWLock:
        """Return a read-write lock by name: `.read()` and `.write()` are locks.

        - `name`: as of `lock()`. What is a read-write lock is one for all who use it.
        - `options`: as of `lock()`, for both, but for `owner`.
        """
        return AsyncRWLock(self._client, name, self._options(options))

    def semaphore(
        self, name: str, *, capacity: int, permits: int = 1, **options: Unpack[LockKeywords]
    ) -> AsyncSemaphore:
        """Return a semaphore by name: each acquire takes `permits` of the capacity.

        - `name`: as of `lock()`.
        - `capacity`: how many permits there are; all who use the name say the same.
        - `permits`: how many of them one acquire takes.
        - `options`: as of `lock()`, but for `owner`; a semaphore is never re-entrant.
        """
        return AsyncSemaphore(
            self._client, name, self._options(options), capacity=capacity, permits=permits
        )

    def all(self, *names: str, **options: Unpack[LockKeywords]) -> AsyncAllOf:
        """Return what holds all of the names or none.

        - `names`: which locks, one by one, each once. They are taken in one order, whatever
          yours: two callers that hold nothing else cannot wait for each other.
        - `options`: as of `lock()`, for each of them, but for `owner`; `timeout` is for all.
        """
        return AsyncAllOf(self._client, names, self._options(options))

    def striped(
        self, name: str, key: object, *, stripes: int = 64, **options: Unpack[LockKeywords]
    ) -> AsyncLock:
        """Return the lock that guards a key: one of so many, the same for all who say the key.

        For keys without number, where a lock for each would be too many; two keys may share one.
        It is called `user#17/64`. Who changes `stripes` while others run guards nothing.

        - `name`: what the keys are of, as `user`.
        - `key`: a str, an int, bytes, a UUID, or a tuple of these; 17 and "17" are the same.
        - `stripes`: how many locks there are; all who use the name say the same.
        - `options`: as of `lock()`.
        """
        full = stripe_name(name, key, stripes=checked_stripes(stripes))
        return AsyncLock(self._client, full, self._options(options))

    def sharded(self, name: str, *, shards: int, **options: Unpack[LockKeywords]) -> AsyncSharded:
        """Return a lock that was split into shards: `acquire_any()` takes any that is free.

        - `name`: as of `lock()`; the shards are the locks `name#0`, `name#1` and so on.
        - `shards`: how many there are. More may be added while others run.
        - `options`: as of `lock()`, for each of them, but for `owner`.
        """
        return AsyncSharded(self._client, name, self._options(options), shards=shards)

    @overload
    def locked(
        self,
        name: str | Callable[..., str],
        *,
        if_held: Literal["wait", "raise"] = "wait",
        **options: Unpack[LockKeywords],
    ) -> Callable[[Callable[P, Awaitable[R]]], Callable[P, Coroutine[Any, Any, R]]]: ...

    @overload
    def locked(
        self,
        name: str | Callable[..., str],
        *,
        if_held: Literal["skip"],
        **options: Unpack[LockKeywords],
    ) -> Callable[[Callable[P, Awaitable[R]]], Callable[P, Coroutine[Any, Any, R | None]]]: ...

    @overload
    def locked(
        self,
        name: str | Callable[..., str],
        *,
        if_held: Literal["skip"],
        skipped: S,
        **options: Unpack[LockKeywords],
    ) -> Callable[[Callable[P, Awaitable[R]]], Callable[P, Coroutine[Any, Any, R | S]]]: ...

    def locked(
        self,
        name: str | Callable[..., str],
        *,
        if_held: Literal["wait", "skip", "raise"] = "wait",
        skipped: object = UNSET,
        **options: Unpack[LockKeywords],
    ) -> Callable[[Callable[P, Awaitable[R]]], Callable[P, Coroutine[Any, Any, object]]]:
        """Decorate a function so that it runs under a lock named after its arguments.

        - `name`: the lock; `"order:{order_id}"` is filled from the call's arguments. Or a function
          that takes these and returns the name.
        - `if_held`: what a call does when the name is held: `"wait"`, return without running
          (`"skip"`), or raise NotAcquired (`"raise"`).
        - `skipped`: what a call returns that was skipped; None if nothing is said.
        - `options`: as of `lock()`.
        """
        if is_bare(name, caller=sys._getframe(1)):  # noqa: SLF001 - Python has no other way
            raise locked_without_name(name)
        instead = checked_skipped(skipped, if_held=checked_if_held(if_held))
        lock_options = self._options(options)
        if if_held != "wait":
            lock_options = replace(lock_options, timeout=0.0)

        def decorate(
            function: Callable[P, Awaitable[R]],
        ) -> Callable[P, Coroutine[Any, Any, object]]:
            refuse_other_flavour(function)
            name_for = name_for_call(name, function)

            @functools.wraps(function)
            async def locked(*args: P.args, **kwargs: P.kwargs) -> object:
                lock = AsyncLock(self._client, name_for(*args, **kwargs), lock_options)
                has_entered = False
                try:
                    async with lock:
                        has_entered = True
                        return await function(*args, **kwargs)
                except NotAcquired:
                    if if_held == "skip" and not has_entered:
                        return instead
                    raise

            return locked

        return decorate

    async def adopt(self, text: str, **options: Unpack[AdoptKeywords]) -> AsyncLease:
        """Return a lease that was detached, by this client or by another of the same store.

        It keeps its name, its token and its ttl. Raises LeaseLost if it was over before.
        Options: renew, max_hold, on_lost.
        """
        checked_keywords(options, accepted=("renew", "max_hold", "on_lost"), what="adopt()")
        attempt = AsyncAdoption(self._client, text, LockOptions(**options))
        try:
            lease = await attempt.adopt()
            attempt.owes = False  # the caller has it: nothing strikes between this and the return
            return lease  # noqa: TRY300 - as above
        except BaseException:
            attempt.leave_behind()
            raise

    def _options(self, given: LockKeywords) -> LockOptions:
        return lock_options(given, ttl=self._defaults.ttl) if given else self._defaults

    # -- for operators -----------------------------------------------------------------

    @property
    def capabilities(self) -> Capabilities:
        """What the backend declares."""
        return self._client.backend.capabilities

    @property
    def location(self) -> str:
        """Where the store is, for people: no password in it."""
        return self._client.backend.location

    async def inspect(self, name: str) -> Inspection:
        """Return who holds a name and who waits for it; it may be old when it arrives."""
        self._client.enter()
        deadline = self._client.request_deadline()
        return await self._client.backend.inspect(checked_name(name), deadline=deadline)

    @runtime.must_be_awaited
    async def is_current(self, sequencer: str) -> bool:
        """Whether the lease that `lease.sequencer` tells of still holds, as the store sees it.

        Never true of one that ended before this was asked: released, expired, broken, or
        taken; nor of one that another store or namespace granted. A moment later it may be
        over: where that matters, compare tokens.
        """
        client = self._client
        client.enter()
        asked = from_text(sequencer)
        if not self.capabilities.sequencers:
            raise no_sequencers(asked.name)
        deadline = client.request_deadline()
        return asked.is_current_in(await client.backend.attest(asked.name, deadline=deadline))

    async def survey(self, prefix: str = "") -> AsyncIterator[Inspection]:
        """Yield every name in use that starts with the prefix, in byte order.

        If a part of the store cannot be asked, what the rest has is yielded first, and then
        BackendUnavailable says what is missing: without an error the list is complete.
        """
        self._client.enter()
        deadline = self._client.request_deadline()
        async for one in self._client.backend.survey(checked_prefix(prefix), deadline=deadline):
            yield one

    @runtime.must_be_awaited
    async def break_(
        self, name: str, *, token: int | None = None, owner: str | None = None
    ) -> tuple[Holder, ...]:
        """End all leases on a name, our own too, and return whose they were.

        With a token, only what is held by that very token; with an owner, only what that
        explicit owner holds, in whichever process. If somebody else holds the name by then,
        nothing is broken and nothing returned. A broken holder elsewhere runs on until its
        next renewal: only the token stops it sooner. Ours are told at once.
        """
        client = self._client
        client.enter()
        checked_name(name)
        if checked_token(token) and self.capabilities.token_quality is TokenQuality.NONE:
            raise TokenUnavailable("this backend has no tokens to break by", name=name)
        if checked_owner(owner) and not self.capabilities.explicit_owner:
            raise ConfigurationError("this backend has no explicit owners (owner=)", name=name)
        deadline = client.request_deadline()
        broken = await client.backend.break_(name, token=token, owner=owner, deadline=deadline)
        tokens = {one.token for one in broken}
        for hold in client.holds.on(name):
            if hold.grant.token in tokens:
                hold.lose("broken")
        return broken

    async def diagnose(self) -> tuple[Finding, ...]:
        """Return what this deployment can promise, and what it cannot."""
        self._client.enter()
        deadline = self._client.request_deadline()
        return tuple(await self._client.backend.diagnose(deadline=deadline))

    def advice(self) -> tuple[Advice, ...]:
        """Return what can be said by now of the ttls and lines of this client's locks.

        Asks nothing of the store: it rests on what an advisor has heard, which is given to the
        client as `on_event=lockfast.observe.Advisor()`. The last moments may be missing.
        """
        from lockfast.observe.advisor import Advisor  # noqa: PLC0415 - few ask for it

        for hook in self._client.telling.hooks:
            if isinstance(hook, Advisor):
                return hook.advice()
        raise ConfigurationError(
            "nobody has listened, so there is no advice: give the client an advisor, "
            "on_event=lockfast.observe.Advisor()"
        )

    # -- closing -----------------------------------------------------------------------

    async def aclose(self) -> None:
        """Tell every lease that it is lost, release what nobody uses, let go of the store."""
        await self._client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.location}>"
