"""Ending a lease from code that cannot await, for asyncio."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


T = TypeVar("T")

# In asyncio, SQLAlchemy runs its hooks in a greenlet, through which they can await.

SYNC_FORM = ("sync_session", "sync_connection")
"""Attributes in which SQLAlchemy's asyncio classes keep the object that has the hooks."""


def do_afterwards(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Start the work without awaiting it; if no loop is running, do nothing."""
    with suppress(RuntimeError):
        asyncio.get_running_loop()
        runtime.spawn(work, name="lockfast-afterwards")


def wait_in_hook(work: Coroutine[Any, Any, T]) -> T:
    """Await the work from inside an SQLAlchemy hook, and return its result."""
    result: T = import_module("sqlalchemy.util").await_only(work)
    return result
