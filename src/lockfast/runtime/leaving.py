"""A `with` block that ends without its `__exit__`: threads alone, tasks are not interrupted there.

CPython looks for signals wherever a function begins, so an interrupt can end a `with` statement
after `__enter__` has returned and before the first instruction of `__exit__`. Nobody is told of it.
But the statement keeps the bound `__exit__` for as long as it runs: what is kept along with that
is dropped when the statement is over, and not before.
"""

from __future__ import annotations

import functools
import threading
import weakref
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F")


class Owing(Protocol):
    """What is kept by those who have to finish something; dropped before, it sees to it."""

    def fulfil(self) -> None:
        """Owe nothing."""


def leaves_block(function: F) -> F:
    """Let the `with` statement that is left by this method keep something until then."""
    return cast("F", _Leaving(cast("Callable[..., Any]", function)))


def keep_for_block(manager: object, owing: Owing) -> None:
    """Let the `with` statement that enters the manager now keep what is owed.

    Where there is no statement (an exit stack, a call of `__enter__` by hand) whoever
    called has to leave the block, as with any other context manager.
    """
    latest: weakref.ref[_BoundExit] | None = getattr(_entering, "latest", None)
    bound = None if latest is None else latest()
    if bound is None or bound.owing is not None or bound.args[0] is not manager:
        owing.fulfil()
    else:
        bound.owing = owing


class _BoundExit(functools.partial[Any]):
    """A bound method, written in C like any other: no instruction of ours comes before its own."""

    owing: Owing | None = None


class _Leaving:
    """Binds the method anew for each `with` statement, which asks for it before it enters."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __get__(self, manager: object, kind: type | None = None) -> Callable[..., Any]:
        if manager is None:
            return self._function
        bound = _BoundExit(self._function, manager)
        _entering.latest = weakref.ref(bound)
        return bound


_entering = threading.local()
