"""Both flavours by the same blocking calls, so that a test is written once.

A client of the asyncio flavour lives on a loop of its own, in a thread of its own; each call
is a task there, and the caller waits for it.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

from holdfast import AsyncLocks, Locks
from holdfast.runtime.clock import Clock

FLAVOURS = ("sync", "async")
PATIENCE = 30.0
GOODBYE = 5.0
_ASYNC_ONLY = ("holdfast._async.", "holdfast.runtime.aio")


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def begin(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Future[Any]:
        """Call something on the loop; the future has what it returns, awaited if it can be."""

        async def work() -> Any:
            result = function(*arguments, **options)
            if inspect.isasyncgen(result):
                return [one async for one in result]
            return await result if inspect.isawaitable(result) else result

        return asyncio.run_coroutine_threadsafe(work(), self._loop)

    def call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Return what a call on the loop returns, in a blocking form."""
        return self.wrapped(self.begin(function, *arguments, **options).result(PATIENCE))

    def wrapped(self, value: Any) -> Any:
        """Return the value, or a blocking form of it where it belongs to the loop."""
        if type(value) is tuple:  # one with names holds facts, and nothing of the loop
            return tuple(map(self.wrapped, value))
        is_of_loop = type(value).__module__.startswith(_ASYNC_ONLY)
        return Blocking(value, self) if is_of_loop else value

    def stop(self) -> None:
        self.call(self._say_goodbye)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _say_goodbye(self) -> None:
        """Let TLS end what asyncio itself closes: a connect that is cancelled when it was made.

        That takes a word of both sides, which nobody waits for, and there is no handle on it.
        """
        with suppress(TimeoutError):  # a server that is stopped says none
            async with asyncio.timeout(GOODBYE):
                while any(map(_is_open_tls, self._loop._transports.values())):  # noqa: ASYNC110
                    await asyncio.sleep(0.001)


def _is_open_tls(transport: Any) -> bool:
    return isinstance(transport.get_protocol(), SSLProtocol) and not transport.is_closing()


class Blocking:
    """An object of the asyncio flavour, used by blocking calls from any thread."""

    def __init__(self, inner: Any, loop: Loop) -> None:
        self._inner = inner
        self._on = loop

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if callable(value) and not isinstance(value, type):
            return functools.partial(self._on.call, value)
        return self._on.wrapped(value)

    def __repr__(self) -> str:
        return repr(self._inner)


def number_waiting(locks: Any) -> int:
    """Return how many acquires of a client have been told that they stand in line."""
    client = getattr(locks, "_inner", locks)._client
    return sum(one.stands for one in client.asking())


class Flavour:
    """Opens clients of one flavour, and closes them when the test ends."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.clock = Clock()
        self._loop = Loop() if name == "async" else None
        self._threads = ThreadPoolExecutor(40)
        self._opened: list[Any] = []

    def __repr__(self) -> str:
        return self.name

    def locks(self, url: str, **options: Any) -> Any:
        """Return a client."""
        if self._loop is None:
            locks = Locks(url, **options)
        else:
            locks = self._loop.call(AsyncLocks, url, **options)
        self._opened.append(locks)
        return locks

    def adopted(self, client: Any, **options: Any) -> Any:
        """Return a client over what an application has."""
        kind = Locks if self._loop is None else AsyncLocks
        return self._kept(self.call(kind.from_client, client, **options))

    def by_factory(self, connect: Callable[[], Any], **options: Any) -> Any:
        """Return a client over connections that a function makes."""
        kind = Locks if self._loop is None else AsyncLocks
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
            getattr(locks, "_inner", locks)._client.request_timeout = seconds

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
