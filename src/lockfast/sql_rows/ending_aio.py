"""For asyncio: how code that cannot await ends a lease."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


T = TypeVar("T")

# In asyncio, SQLAlchemy runs its hooks in a greenlet, through which a hook can await.

SYNC_FORM = ("sync_session", "sync_connection")
"""The attributes of SQLAlchemy's asyncio classes that contain the object with the hooks."""


def do_afterwards(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Start the work without waiting for it; if no loop is running, do nothing."""
    with suppress(RuntimeError):
        asyncio.get_running_loop()
        runtime.spawn(work, name="lockfast-afterwards")


def wait_in_hook(work: Coroutine[Any, Any, T]) -> T:
    """Await the work from inside an SQLAlchemy hook, and return its result."""
    result: T = import_module("sqlalchemy.util").await_only(work)
    return result
