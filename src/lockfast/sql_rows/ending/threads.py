"""In threads a hook of SQLAlchemy's is a plain call, and so is what it does."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

SYNC_FORM: tuple[str, ...] = ()
"""What is given has the hooks itself."""


def do_afterwards(work: Callable[[], None]) -> None:
    """Do it, now."""
    work()


def waited_for(done: T) -> T:
    """Return it: whoever called has waited already."""
    return done
