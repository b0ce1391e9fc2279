"""Things that belong to one process: fork hooks, and objects that cannot be pickled."""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar, NoReturn, Protocol

from lockfast.platforms import here

if TYPE_CHECKING:
    from collections.abc import Callable


# Objects that belong to one process; a pickled or copied object would hold nothing.


class NotPicklable:
    """Refuses to be pickled or copied, and says what to do in the other process instead."""

    __slots__ = ()

    _advice: ClassVar[str] = "make a client there"
    """What to do in the other process instead."""

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__} belongs to this process and can be neither pickled nor copied; "
            f"{self._advice}"
        )


# What a forked child must abandon.
#
# A child inherits its parent's objects but not the threads, and shares the parent's sockets and
# file locks. The owners of such resources register here, and are called once in the child. An
# object that must not be copied in the middle of an operation is paused before the fork.


class ForkAware(Protocol):
    """Something that must not be shared with a forked child."""

    def after_fork_in_child(self) -> None:
        """Abandon everything without contacting the store.

        The parent still uses the sockets and file locks that it shares with us.
        """


class PausesForFork(Protocol):
    """Something that must not be copied in the middle of its work.

    Both methods may be called repeatedly.
    """

    def before_fork(self) -> None:
        """Finish the work under way, and begin nothing new."""

    def after_fork_in_parent(self) -> None:
        """Resume; if it was not paused, do nothing."""


# This is module state, because the interpreter offers one global hook, and no way to remove a hook.
_registered: weakref.WeakSet[ForkAware] = weakref.WeakSet()
_pausing: weakref.WeakSet[PausesForFork] = weakref.WeakSet()
_paused: list[PausesForFork] = []
_abandoned: list[object] = []
_forking = threading.RLock()


def reset_in_child(one: ForkAware) -> None:
    """Call `one.after_fork_in_child` in the child after each fork, as long as `one` lives."""
    _registered.add(one)


def abandon(thing: object) -> None:
    """Keep an inherited object open for ever, because closing it could harm the parent."""
    _abandoned.append(thing)


def abandon_socket(owner: object, number: int) -> None:
    """Keep the inherited owner of a socket open for ever, but let go of its descriptor number.

    /dev/null is put under that number, so closing it later closes nothing else, and sends nothing.
    """
    abandon(owner)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, number)
    os.close(nothing)


def pause_for_fork(one: PausesForFork) -> None:
    """Pause `one` during each fork of the process, as long as `one` lives."""
    _pausing.add(one)


def _before() -> None:
    _complete(_pause_all)


def _pause_all() -> None:
    _forking.acquire()  # two threads that fork at once would wait for each other
    _paused[:] = _pausing
    for one in _paused:
        one.before_fork()


def _in_parent() -> None:
    _complete(_resume_all)


def _resume_all() -> None:
    for one in _paused:
        one.after_fork_in_parent()
    with suppress(RuntimeError):  # releases until nothing is left to release
        while True:
            _forking.release()


def _complete(act: Callable[[], None]) -> None:
    """Complete the act despite an interrupt, which Python then reports and discards.

    The fork continues, whatever is raised here. An object that was not paused would be copied in
    the middle of its work, and an object that was not resumed would stay paused for ever. So the
    act is repeated from its start.
    """
    try:
        act()
    except BaseException:
        _complete(act)
        raise


def _in_child() -> None:
    global _forking  # noqa: PLW0603 - module state, as above; this lock may be held
    _forking = threading.RLock()
    _paused.clear()
    failure: BaseException | None = None
    for one in list(_registered):
        try:
            one.after_fork_in_child()
        except BaseException as error:  # noqa: BLE001 - raised below, after all callbacks
            # each object must be called, or it would use the parent's resources
            failure = failure or error
    if failure is not None:
        raise failure


here.at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
