"""Lockfast's own locks as contenders, in both flavours."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from lockfast import AsyncLocks, Locks
from lockfast.errors import (
    ConfigurationError,
    LeaseLost,
    LockError,
    NotAcquired,
    NotOwner,
    TokenUnavailable,
)
from lockfast.model import ALL
from lockfast.urls import backend_class
from lockfast_challenge.contender import NeverRaised, NotGranted

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from types import TracebackType
    from typing import Self

    from lockfast import AsyncLease, Lease

T = TypeVar("T")


class SyncContender:
    """`Locks`, with all calls in the client's main thread, which signals interrupt."""

    is_renewed = True

    def __init__(self, url: str, *, ttl: float, clock_ahead: float) -> None:
        # `clock_ahead` is unused, because a lease ends by the store's clock, and the client's trust
        # in the lease ends by the monotonic clock.
        del clock_ahead
        self._locks = Locks(url, ttl=ttl)

    def acquire(self, name: str, *, timeout: float) -> SyncHeld:
        return self.acquire_share(name, weight=1, capacity=1, timeout=timeout)

    def acquire_share(self, name: str, *, weight: int, capacity: int, timeout: float) -> SyncHeld:
        # Make a new lock object each time, so that any state that an interrupt leaves in the lock
        # is dropped with it.
        lock = _lock(self._locks, name, weight=weight, capacity=capacity)
        with _mapping_errors():
            return SyncHeld(lock.acquire(timeout=timeout))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._locks.close()

    @staticmethod
    def imports(url: str) -> None:
        backend_class(url.partition("://")[0], flavour="_sync")

    @staticmethod
    def is_fair(url: str) -> bool:
        with Locks(url) as locks:
            return locks.capabilities.fair

    @staticmethod
    def left(url: str, name: str) -> list[str]:
        with Locks(url) as locks:
            found = locks.inspect(name)
        inside = [f"{one.owner} holds {name}" for one in found.holders]
        return inside + [f"{one.owner} waits for {name}" for one in found.line]


class SyncHeld:
    """A `Lease` as a held lock."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self.deadline: float | None = None

    @property
    def token(self) -> int | None:
        return _token(self._lease)

    def check(self) -> None:
        self.deadline = _checked(self._lease)

    def release(self) -> None:
        with _mapping_errors():
            self._lease.release()


class AsyncContender:
    """`AsyncLocks` on a loop in its own thread, which renews leases while the client sleeps."""

    is_renewed = True

    is_interrupted_once = True

    def __init__(self, url: str, *, ttl: float, clock_ahead: float) -> None:
        del clock_ahead
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._locks = self.on_loop(self._opened(url, ttl))

    def acquire(self, name: str, *, timeout: float) -> AsyncHeld:
        return self.acquire_share(name, weight=1, capacity=1, timeout=timeout)

    def acquire_share(self, name: str, *, weight: int, capacity: int, timeout: float) -> AsyncHeld:

        async def acquire() -> AsyncLease:
            lock = _lock(self._locks, name, weight=weight, capacity=capacity)
            lease: AsyncLease = await lock.acquire(timeout=timeout)
            return lease

        with _mapping_errors():
            return AsyncHeld(self, self.on_loop(acquire(), undone_by=lambda one: one.release()))

    def on_loop(
        self,
        work: Coroutine[Any, Any, T],
        *,
        undone_by: Callable[[T], Coroutine[Any, Any, None]] | None = None,
    ) -> T:
        """Run `work` on the loop and return its result.

        An interrupt cancels the work and waits until the work has ended. If the work returns a
        result all the same, the result can no longer be returned from here, so `undone_by` undoes
        it.
        """

        async def run() -> T:
            task = asyncio.current_task()
            if task is not None:
                begun.append(task)
            done.append(found := await work)
            return found

        begun: list[asyncio.Task[Any]] = []
        done: list[T] = []
        future = asyncio.run_coroutine_threadsafe(run(), self._loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            asyncio.run_coroutine_threadsafe(_cancel(begun), self._loop).result()
            if done and undone_by is not None:
                asyncio.run_coroutine_threadsafe(undone_by(done[0]), self._loop).result()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.on_loop(self._locks.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @staticmethod
    async def _opened(url: str, ttl: float) -> AsyncLocks:
        return AsyncLocks(url, ttl=ttl)

    @staticmethod
    def imports(url: str) -> None:
        backend_class(url.partition("://")[0], flavour="_async")

    is_fair: staticmethod[[str], bool] = staticmethod(SyncContender.is_fair)
    left: staticmethod[[str, str], list[str]] = staticmethod(SyncContender.left)


class AsyncHeld:
    """An `AsyncLease`, which lives on the loop, as a held lock."""

    def __init__(self, contender: AsyncContender, lease: AsyncLease) -> None:
        self._contender = contender
        self._lease = lease
        self.deadline: float | None = None

    @property
    def token(self) -> int | None:
        return _token(self._lease)

    def check(self) -> None:

        async def check() -> None:  # runs on the loop, to which the lease belongs
            self.deadline = _checked(self._lease)

        self._contender.on_loop(check())

    def release(self) -> None:
        with _mapping_errors():
            self._contender.on_loop(self._lease.release())


@contextmanager
def _mapping_errors() -> Iterator[None]:
    """Turn a definite no into NotGranted, and a forbidden error into NeverRaised."""
    try:
        yield
    except (NotAcquired, LeaseLost, NotOwner) as error:
        raise NotGranted(str(error)) from error
    except ConfigurationError as error:
        raise NeverRaised(str(error)) from error
    except (LockError, NotGranted):
        raise
    except Exception as error:
        raise NeverRaised(f"{type(error).__name__}: {error}") from error


async def _cancel(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _lock(locks: Any, name: str, *, weight: int, capacity: int) -> Any:  # noqa: ANN401 - of either flavour
    if capacity == 1:
        return locks.lock(name, reentrant=False)
    if capacity == ALL:
        both = locks.rwlock(name, reentrant=False)
        return both.write() if weight == ALL else both.read()
    return locks.semaphore(name, capacity=capacity, permits=weight)


def _token(lease: Lease | AsyncLease) -> int | None:
    try:
        return lease.token
    except TokenUnavailable:
        return None


def _checked(lease: Lease | AsyncLease) -> float:
    """Check the lease; return its own deadline, on the clock of the diary.

    `remaining` would not do: it is never negative, so it would hide a lease that passes its check
    after its own deadline. A deadline only ever grows, so a client that is frozen after the check
    records a later deadline, which causes no false finding.
    """
    with _mapping_errors():
        lease.check()
    return lease._hold.until  # noqa: SLF001 - as above
