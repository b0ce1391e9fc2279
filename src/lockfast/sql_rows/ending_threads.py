"""Ending a lease from an SQLAlchemy hook, for threads, where every call is a plain one."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

SYNC_FORM: tuple[str, ...] = ()
"""The caller's object has the hooks itself."""


def do_afterwards(work: Callable[[], None]) -> None:
    """Do the work now."""
    work()


def wait_in_hook(done: T) -> T:
    """Return the result, because a synchronous call has already waited."""
    return done
