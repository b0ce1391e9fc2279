"""Notices when an interrupt ends a `with` block without its `__exit__`, as can happen in threads.

CPython checks for signals wherever a function begins, so an interrupt can end a `with` statement
after `__enter__` has returned and before the first instruction of `__exit__`. Nothing reports such
an end. But as long as the statement runs, it keeps the bound `__exit__`. So if an object is
attached to that bound method, Python drops the object when the statement ends, and not before.
"""

from __future__ import annotations

import functools
import threading
import weakref
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F")


class CleanupObligation(Protocol):
    """An object kept until some work is done; if dropped before `fulfil`, it cleans up."""

    def fulfil(self) -> None:
        """Mark the cleanup as no longer needed."""


def leaves_block(function: F) -> F:
    """Decorate an exit method so that the `with` statement that calls it can keep an obligation."""
    return cast("F", _BlockExit(cast("Callable[..., Any]", function)))


def keep_for_block(manager: object, obligation: CleanupObligation) -> None:
    """Make the `with` statement that is entering the manager keep the obligation.

    Without a `with` statement (in an exit stack, or if `__enter__` is called by hand), the caller
    has to make sure that the block is left, as with any other context manager.
    """
    latest: weakref.ref[_BoundExit] | None = getattr(_entering, "latest", None)
    bound = None if latest is None else latest()
    if bound is None or bound.obligation is not None or bound.args[0] is not manager:
        obligation.fulfil()
    else:
        bound.obligation = obligation


class _BoundExit(functools.partial[Any]):
    """A bound method, implemented in C as usual, so that no code of ours runs before the method."""

    obligation: CleanupObligation | None = None


class _BlockExit:
    """Creates a new bound method for each `with` statement that looks up `__exit__`."""

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
