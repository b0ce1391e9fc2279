"""What an asyncio method returns whose answer decides whether to go on: it has to be awaited.

A plain coroutine is true. So `if lock.try_acquire():` without its `await` enters without the lock,
and Python only warns later, of a coroutine that was never awaited. Here the truth value raises.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import sys
from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar

if TYPE_CHECKING:
    from types import FrameType, TracebackType

P = ParamSpec("P")
T_co = TypeVar("T_co", covariant=True)


class MustAwait(Coroutine[Any, Any, T_co]):
    """A coroutine in every respect but one: it has no truth value."""

    __slots__ = ("__weakref__", "_coroutine")

    def __init__(self, coroutine: Coroutine[Any, Any, T_co]) -> None:
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, T_co]:
        return self._coroutine.__await__()

    def send(self, value: Any) -> Any:  # noqa: ANN401 - as of any coroutine
        """Go on, as a task asks it to."""
        return self._coroutine.send(value)

    def throw(
        self,
        typ: Any,  # noqa: ANN401 - an exception, or its class as in the older form
        val: BaseException | object = None,
        tb: TracebackType | None = None,
    ) -> Any:  # noqa: ANN401
        """Go on with an exception: how a task is cancelled."""
        if val is None and tb is None:
            return self._coroutine.throw(typ)
        return self._coroutine.throw(typ, val, tb)

    def close(self) -> None:
        """End it; one that never ran has then nothing to warn of."""
        self._coroutine.close()

    if TYPE_CHECKING:

        def __bool__(self) -> NoReturn: ...  # so that pyright reports it before it is run

    else:

        def __bool__(self) -> bool:
            has_begun = inspect.getcoroutinestate(self._coroutine) != inspect.CORO_CREATED
            if has_begun or _is_asyncio(sys._getframe(1)):  # noqa: SLF001 - the only way to it
                # A task has it, and asyncio's `repr` of a task asks whether there is one.
                return True
            return self._refuse()

        def _refuse(self, *_: object) -> NoReturn:
            self.close()  # otherwise Python would also warn that it was never awaited
            name = self._coroutine.__qualname__
            raise TypeError(
                f"the result of {name}() was used without `await`, so the store was never asked: "
                f"write `await ...{name.rpartition('.')[2]}(...)`"
            )

        # `async with lock.acquire():`, and unpacking what `all()` would return: the same mistake.
        __aenter__ = __aexit__ = __iter__ = _refuse

        # Not for type checkers: they would find every attribute, also those of a generator.
        def __getattr__(self, name: str) -> object:
            # What debuggers and asyncio's reports look at: `cr_frame`, `cr_code`, `__qualname__`.
            return getattr(self._coroutine, name)

    def __repr__(self) -> str:
        return repr(self._coroutine)


def _is_asyncio(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] == "asyncio"


def must_be_awaited(
    function: Callable[P, Coroutine[Any, Any, T_co]],
) -> Callable[P, MustAwait[T_co]]:
    """Let a method return what raises where its answer is used without `await`."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> MustAwait[T_co]:
        return MustAwait(function(*args, **kwargs))

    # So that `AsyncMock(spec=AsyncLock)` still takes it for a coroutine function.
    if sys.version_info >= (3, 12):
        return inspect.markcoroutinefunction(call)
    call._is_coroutine = asyncio.coroutines._is_coroutine  # type: ignore[attr-defined]  # noqa: SLF001
    return call
