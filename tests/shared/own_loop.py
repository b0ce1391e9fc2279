"""An event loop in its own thread, whose objects are used through blocking calls.

Each call is a task on that loop, and the caller waits for the task.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

PATIENCE = 170.0
"""Longer than any call's own timeout, in seconds; a hang is ended by the limit of all tests."""
GOODBYE = 5.0
_ASYNC_ONLY = ("lockfast.client._async.", "lockfast.runtime.aio")


class Loop:
    """An event loop in its own thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def begin(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Future[Any]:
        """Call a function on the loop; the future has its result, awaited if that is awaitable."""

        async def work() -> Any:
            result = function(*arguments, **options)
            if inspect.isasyncgen(result):
                return [one async for one in result]
            return await result if inspect.isawaitable(result) else result

        return asyncio.run_coroutine_threadsafe(work(), self._loop)

    def call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Return the result of a call on the loop, in a blocking form."""
        return self.wrapped(self.begin(function, *arguments, **options).result(PATIENCE))

    def wrapped(self, value: Any) -> Any:
        """Return the value, or a blocking form of it if it belongs to the loop."""
        if type(value) is tuple:  # a named tuple holds facts, and nothing of the loop
            return tuple(map(self.wrapped, value))
        is_of_loop = type(value).__module__.startswith(_ASYNC_ONLY)
        return Blocking(value, self) if is_of_loop else value

    def stop(self) -> None:
        self.call(self._say_goodbye)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _say_goodbye(self) -> None:
        """Wait for the TLS shutdowns that asyncio itself started, of connects cancelled at the end.

        A shutdown takes a message from each side; asyncio does not wait for the messages, and gives
        no handle on the shutdown.
        """
        with suppress(TimeoutError):  # a stopped server does not reply
            async with asyncio.timeout(GOODBYE):
                while any(map(_is_open_tls, self._loop._transports.values())):  # noqa: ASYNC110
                    await asyncio.sleep(0.001)


def _is_open_tls(transport: Any) -> bool:
    return isinstance(transport.get_protocol(), SSLProtocol) and not transport.is_closing()


class Blocking:
    """An asyncio object, used through blocking calls from any thread."""

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
