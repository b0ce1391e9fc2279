"""Both flavours by the same blocking calls, so that a test is written once.

A client of the asyncio flavour lives on a loop of its own, see `own_loop.py`. The many processes
that tests start for the sync flavour do not import it.
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
    """Return how many acquires of a client have been told that they stand in line."""
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
        """Return a client, and its backend, which fails when told to."""
        from lockfast import testing  # noqa: PLC0415 - see above

        is_sync = self._loop is None
        faulty: Any = testing.FaultyBackend if is_sync else testing.AsyncFaultyBackend
        kind: Any = Locks if is_sync else lockfast.AsyncLocks
        backend = faulty.around(url)
        return self._kept(self.call(kind.from_backend, backend, **options)), backend

    def adopted(self, client: Any, **options: Any) -> Any:
        """Return a client over what an application has."""
        kind = Locks if self._loop is None else lockfast.AsyncLocks
        return self._kept(self.call(kind.from_client, client, **options))

    def by_factory(self, connect: Callable[[], Any], **options: Any) -> Any:
        """Return a client over connections that a function makes."""
        kind = Locks if self._loop is None else lockfast.AsyncLocks
        return self._kept(self.call(kind.from_factory, connect, **options))

    def _kept(self, one: Any) -> Any:
        self._opened.append(one)
        return one

    def close_after_clients(self, one: Any) -> None:
        """Close something, by blocking calls, when those who use it are closed."""
        self._opened.insert(0, one)

    def give_up_after(self, seconds: float) -> None:
        """Let the clients that were opened so far give up a request after so long.

        Not from the beginning: on a busy machine connecting takes longer, and is not on trial.
        """
        for locks in self._opened:
            client = getattr(locks, "_inner", locks)._client
            client.request_timeout = seconds
            client.backend.bound_requests(seconds)

    def call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Return what something returns that is not of a client: of the wire, say."""
        if self._loop is None:
            return function(*arguments, **options)
        return self._loop.call(function, *arguments, **options)

    def start(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Future[Any]:
        """Run a blocking call beside the test."""
        return self._threads.submit(function, *arguments, **options)

    def after_fork_in_child(self) -> None:
        """Have a loop again: the parent's thread is not here."""
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
    """Give both, where a test drives them side by side."""
    flavours = [Flavour(one) for one in FLAVOURS]
    yield flavours
    for one in flavours:
        one.close()
