"""What a forked child must let go of.

A child inherits the objects of its parent but none of its threads, and shares its sockets
and file locks. Whoever owns such things registers here and is told, once, in the child;
whoever must not be copied in the middle of something is asked to pause before.
"""

from __future__ import annotations

import threading
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from lockfast.platforms import here

if TYPE_CHECKING:
    from collections.abc import Callable


class Forgetful(Protocol):
    """Something that must not be shared with a forked child."""

    def after_fork_in_child(self) -> None:
        """Let go without a word to the store: the parent still uses what we share."""


class Pausing(Protocol):
    """Something whose work must not be copied half done. Both may be asked again at any time."""

    def before_fork(self) -> None:
        """Finish what is under way, and begin nothing."""

    def after_fork_in_parent(self) -> None:
        """Go on; what was not paused is left alone."""


# Module state, because the interpreter offers one global hook and no way to take it back.
_registered: weakref.WeakSet[Forgetful] = weakref.WeakSet()
_pausing: weakref.WeakSet[Pausing] = weakref.WeakSet()
_paused: list[Pausing] = []
_leaked: list[object] = []
_forking = threading.RLock()


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
    _insist(_pause_all)


def _pause_all() -> None:
    _forking.acquire()  # two threads that fork at once would each wait for the other
    _paused[:] = _pausing
    for one in _paused:
        one.before_fork()


def _in_parent() -> None:
    _insist(_go_on)


def _go_on() -> None:
    for one in _paused:
        one.after_fork_in_parent()
    with suppress(RuntimeError):  # every time that it was taken has been given back
        while True:
            _forking.release()


def _insist(act: Callable[[], None]) -> None:
    """Do it in spite of an interrupt, which Python then tells of and forgets.

    The fork goes on whatever is raised here: what was not paused would be copied half done,
    and what was not let go would stand still for ever. So it is done again from its start.
    """
    try:
        act()
    except BaseException:
        _insist(act)
        raise


def _in_child() -> None:
    global _forking  # noqa: PLW0603 - as the others, and this one may be taken
    _forking = threading.RLock()
    _paused.clear()
    failure: BaseException | None = None
    for one in list(_registered):
        try:
            one.after_fork_in_child()
        except BaseException as error:  # noqa: BLE001 - raised below, when all have been told
            failure = failure or error  # who is not told would use what is the parent's
    if failure is not None:
        raise failure


here.at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
