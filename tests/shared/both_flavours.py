"""Both flavours through the same blocking calls, so that a test is written once.

A client of the asyncio flavour lives on its own loop, see `own_loop.py`. The many processes that
tests start for the sync flavour do not import that module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import lockfast
from lockfast import Locks
from lockfast.runtime.clock import Clock

FLAVOURS = ("sync", "async")


def number_waiting(locks: Any) -> int:
    """Return how many acquires of a client have learned that they are in line."""
    client = getattr(locks, "_inner", locks)._client
    return sum(one.stands for one in client.asking())


def _loop() -> Any:
    from own_loop import Loop  # noqa: PLC0415 - see above

    return Loop()


class Flavour:
    """Opens clients of one flavour, and closes them when the test ends."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.clock = Clock()
        self._loop = _loop() if name == "async" else None
        self._threads = ThreadPoolExecutor(40)
        self._opened: list[Any] = []

    def __repr__(self) -> str:
        return self.name

    def locks(self, url: str, **options: Any) -> Any:
        """Return a client."""
        if self._loop is None:
            locks = Locks(url, **options)
        else:
            locks = self._loop.call(lockfast.AsyncLocks, url, **options)
        self._opened.append(locks)
        return locks

    def faulty(self, url: str, **options: Any) -> tuple[Any, Any]:
        """Return a client and its backend, which fails on command."""
        from lockfast import testing  # noqa: PLC0415 - see above

        is_sync = self._loop is None
        faulty: Any = testing.FaultyBackend if is_sync else testing.AsyncFaultyBackend
        kind: Any = Locks if is_sync else lockfast.AsyncLocks
        backend = faulty.around(url)
        return self._kept(self.call(kind.from_backend, backend, **options)), backend

    def adopted(self, client: Any, **options: Any) -> Any:
        """Return a client that uses an application's own client."""
        kind = Locks if self._loop is None else lockfast.AsyncLocks
        return self._kept(self.call(kind.from_client, client, **options))

    def by_factory(self, connect: Callable[[], Any], **options: Any) -> Any:
        """Return a client that uses connections made by a function."""
        kind = Locks if self._loop is None else lockfast.AsyncLocks
        return self._kept(self.call(kind.from_factory, connect, **options))

    def _kept(self, one: Any) -> Any:
        self._opened.append(one)
        return one

    def close_after_clients(self, one: Any) -> None:
        """When the test ends, close the object by a blocking call after the clients that use it."""
        self._opened.insert(0, one)

    def give_up_after(self, seconds: float) -> None:
        """Set the request timeout of the clients opened so far.

        Do not set it from the start: on a busy machine connecting takes longer, and is not under
        test.
        """
        for locks in self._opened:
            client = getattr(locks, "_inner", locks)._client
            client.request_timeout = seconds
            client.backend.bound_requests(seconds)

    def call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Return the result of a function that does not belong to a client, such as a transport."""
        if self._loop is None:
            return function(*arguments, **options)
        return self._loop.call(function, *arguments, **options)

    def start(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Future[Any]:
        """Run a blocking call concurrently with the test."""
        return self._threads.submit(function, *arguments, **options)

    def after_fork_in_child(self) -> None:
        """Start a new loop, because the thread of the parent's loop does not exist in the child."""
        if self._loop is not None:
            self._loop.__init__()  # type: ignore[misc]

    def close(self) -> None:
        for locks in reversed(self._opened):
            (locks.close if self._loop is None else locks.aclose)()
        self._threads.shutdown()
        if self._loop is not None:
            self._loop.stop()


@contextmanager
def each_flavour() -> Iterator[list[Flavour]]:
    """Yield both flavours, for a test that runs them in parallel."""
    flavours = [Flavour(one) for one in FLAVOURS]
    yield flavours
    for one in flavours:
        one.close()
