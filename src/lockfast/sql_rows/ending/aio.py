"""In asyncio a hook of SQLAlchemy's runs in a greenlet, which lets its task await for it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")

SYNC_FORM = ("sync_session", "sync_connection")
"""Where its asyncio forms keep what has the hooks."""


def do_afterwards(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Begin it, where nobody can await it; without a loop there is nobody left to do it."""
    with suppress(RuntimeError):
        asyncio.get_running_loop()
        runtime.spawn(work, name="lockfast-afterwards")


def waited_for(work: Coroutine[Any, Any, T]) -> T:
    """Return what it comes to, inside a hook of SQLAlchemy's."""
    result: T = import_module("sqlalchemy.util").await_only(work)
    return result
