"""In asyncio SQLAlchemy calls its hooks in a greenlet, which lets its task await for it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")

SYNC_FORM = ("sync_session", "sync_connection")
"""Where its asyncio forms keep what has the hooks."""


def waited_for(work: Coroutine[Any, Any, T]) -> T:
    """Return what it comes to, inside a hook of SQLAlchemy's."""
    result: T = import_module("sqlalchemy.util").await_only(work)
    return result
