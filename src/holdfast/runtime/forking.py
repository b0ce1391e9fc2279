"""What a forked child must let go of.

A child inherits the objects of its parent but none of its threads, and shares its sockets
and file locks. Whoever owns such things registers here and is told, once, in the child;
whoever must not be copied in the middle of something is asked to pause before.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol


class Forgetful(Protocol):
    """Something that must not be shared with a forked child."""

    def after_fork_in_child(self) -> None:
        """Let go without a word to the store: the parent still uses what we share."""


class Pausing(Protocol):
    """Something whose work must not be copied half done."""

    def before_fork(self) -> None:
        """Finish what is under way, and begin nothing."""

    def after_fork_in_parent(self) -> None:
        """Go on."""


# Module state, because the interpreter offers one global hook and no way to take it back.
_registered: weakref.WeakSet[Forgetful] = weakref.WeakSet()
_pausing: weakref.WeakSet[Pausing] = weakref.WeakSet()
_paused: list[Pausing] = []
_leaked: list[object] = []
_forking = threading.Lock()


def forget_in_child(one: Forgetful) -> None:
    """Tell `one` after a fork, in the child, for as long as it lives."""
    _registered.add(one)


def leak(thing: object) -> None:
    """Keep an inherited object unclosed for ever: closing it could harm the parent."""
    _leaked.append(thing)


def pause_for_fork(one: Pausing) -> None:
    """Let `one` pause while the process is copied, for as long as it lives."""
    _pausing.add(one)


def _before() -> None:
    _forking.acquire()
    _paused.extend(_pausing)
    for one in _paused:
        one.before_fork()


def _in_parent() -> None:
    for one in _paused:
        one.after_fork_in_parent()
    _paused.clear()
    _forking.release()


def _in_child() -> None:
    _paused.clear()
    _forking.release()
    for one in list(_registered):
        one.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
