"""What a forked child must let go of.

A child inherits the objects of its parent but none of its threads, and shares its sockets
and file locks. Whoever owns such things registers here and is told, once, in the child.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forgetful(Protocol):
    """Something that must not be shared with a forked child."""

    def after_fork_in_child(self) -> None:
        """Let go without a word to the store: the parent still uses what we share."""


# Module state, because the interpreter offers one global hook and no way to take it back.
_registered: weakref.WeakSet[Forgetful] = weakref.WeakSet()
_leaked: list[object] = []


def forget_in_child(one: Forgetful) -> None:
    """Tell `one` after a fork, in the child, for as long as it lives."""
    _registered.add(one)


def leak(thing: object) -> None:
    """Keep an inherited object unclosed for ever: closing it could harm the parent."""
    _leaked.append(thing)


def _in_child() -> None:
    for one in list(_registered):
        one.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
