"""An event loop in a thread of its own, and what belongs to it used by blocking calls.

Each call is a task there, and the caller waits for it.
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
"""A call may have been given its own time, and ends by that; a hang by the limit of all tests."""
GOODBYE = 5.0
_ASYNC_ONLY = ("lockfast._async.", "lockfast.runtime.aio")


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
