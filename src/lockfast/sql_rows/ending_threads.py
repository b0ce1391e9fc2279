"""For threads: how an SQLAlchemy hook ends a lease; here every call is a plain call."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

SYNC_FORM: tuple[str, ...] = ()
"""Empty, because in threads the caller's object itself has the hooks."""


def do_afterwards(work: Callable[[], None]) -> None:
    """Do the work now."""
    work()


def wait_in_hook(done: T) -> T:
    """Return the result, because a synchronous call has already waited."""
    return done
