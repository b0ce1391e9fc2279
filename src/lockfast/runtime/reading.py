"""One connection that several threads want to hear: one of them at a time reads it for all."""

from __future__ import annotations

import socket
import threading
import time
import weakref
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, TypeVar

from lockfast.platforms import here

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lockfast.runtime.clock import Clock
    from lockfast.runtime.threads import Event


LONGEST = 3600.0
"""No wait is longer: a lock cannot wait for an infinite time that has a number."""

LEAVING = 1.0
"""How long a guest may take to leave one that is closed; it is told, and leaves at once."""


class Readable(Protocol):
    """A connection that can be polled."""

    def fileno(self) -> int:
        """Return what is polled."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


L = TypeVar("L", bound=Readable)


class ReadByTurns(Generic[L]):
    """Hears one connection. A subclass says how it is read, and what a broken one raises.

    One thread at a time reads it. That is the inbox's, in `listen`, unless a thread waits
    for a ring: such a guest reads by itself in `attend`, so that what it waits for does not
    have to be handed from one thread to another first, which takes longer than all the rest.

    A guest may be interrupted between any two steps. So who reads is told by an attribute that
    names the reader, and the reader clears it by a bare assignment in a `finally` that was
    entered before: no signal can strike between the two. All else that an interrupt leaves
    undone the inbox's thread finds when it next looks, which is after a second at most.
    """

    _broken_by: ClassVar[tuple[type[Exception], ...]] = (OSError,)

    def __init__(self, link: L, *, clock: Clock) -> None:
        self._link = link
        self._clock = clock
        self._kicks = Kicks()
        try:
            self._nudges = Kicks()
        except BaseException:
            self._kicks.close()
            raise
        self._reader: threading.Thread | None = None
        self._using = threading.Lock()
        self._state = threading.Lock()
        self._attending: set[threading.Thread] = set()
        self._is_polled = False
        self._is_broken = False
        self._is_closed = False

    def _read(self) -> None:
        """Read once, and tell of whatever that brought."""
        raise NotImplementedError

    def _has_more(self) -> bool:
        """Whether something was read already and is yet to be told; a poll would not see it."""
        return False

    # -- the inbox's thread ------------------------------------------------------------

    def listen(self, *, until: float) -> bool:
        """Tell of what is heard until then, or until kicked; false once the link is broken."""
        me = threading.current_thread()
        while not self._is_broken and (left := until - self._clock.now()) > 0:
            # Said before looking at who reads: a guest becomes the reader before looking at
            # this, so one of the two sees the other.
            self._is_polled = True
            if self._has_reader():
                self._is_polled = False
            link = self._link if self._is_polled else None
            heard, kicked = self._poll(link, self._kicks, left)
            self._is_polled = False
            if heard and self._begins_reading(me):
                try:
                    self._read_or_break()
                finally:
                    self._reader = None
            if kicked:
                break
        return not self._is_broken

    def kick(self) -> None:
        """Let `listen` return."""
        self._kicks.give()

    # -- whoever waits -----------------------------------------------------------------

    def attend(self, event: Event, *, deadline: float) -> None:
        """Return when the event is set or the deadline has passed."""
        me = threading.current_thread()
        try:
            self._attending.add(me)
            if not event.is_set():
                self._be_guest(me, event, deadline)
            if not event.is_set():
                self._sleep(event, deadline)
        finally:
            self._attending.discard(me)

    def _be_guest(self, me: threading.Thread, event: Event, deadline: float) -> None:
        try:
            if not self._begins_reading(me):
                return
            if self._is_polled:
                self.kick()  # it is ours to listen now
            self._listen_for(event, deadline)
        finally:
            if self._reader is me:
                self._reader = None
        if len(self._attending) > 1 or self._is_broken:
            self.kick()  # somebody has to listen for the others

    def _listen_for(self, event: Event, deadline: float) -> None:
        while not event.is_set() and not self._is_broken:
            left = deadline - self._clock.now()
            if left <= 0:
                return
            heard, _ = self._poll(self._link, self._nudges, left)
            # Rung by a fork, in the child, it must not take what its parent is to read.
            if heard and not event.is_set():
                self._read_or_break()

    def _sleep(self, event: Event, deadline: float) -> None:
        # Not a second at a time: hundreds of threads would do nothing else. Whoever listens
        # looks at the clock, and rings all when the machine has slept.
        while not event.is_set():
            left = deadline - self._clock.now()
            if left <= 0:
                return
            event.wait(min(left, LONGEST))

    def nudge(self) -> None:
        """Let a guest see that its event was set by somebody else than itself."""
        if self._reader is not None:
            self._nudges.give()

    # -- reading -----------------------------------------------------------------------

    def _has_reader(self) -> bool:
        reader = self._reader
        return reader is not None and reader.is_alive()

    def _begins_reading(self, me: threading.Thread) -> bool:
        """Whether the thread is the one that reads from now on."""
        with self._state:
            if self._is_closed or self._has_reader():
                return self._reader is me
            self._reader = me
        return True

    def _poll(self, link: L | None, kicks: Kicks, left: float) -> tuple[bool, bool]:
        """Wait for one of them, at most so long; whether there is something to read, and a kick."""
        has_more = link is not None and self._has_more()
        try:
            # A kick counts even while there is always more to read: a server that keeps talking
            # must not keep this thread from whoever wants it to return.
            heard, kicked = kicks.wait(
                link, 0.0 if has_more else min(left, self._clock.longest_sleep)
            )
        except (OSError, ValueError):
            if self._is_closed:
                return False, True  # by another thread, just now
            raise
        return heard or has_more, kicked

    def _read_or_break(self) -> None:
        try:
            with self._using:
                self._read()
        except self._broken_by:
            self._is_broken = True
        except BaseException:
            # An interrupt: a part of a message may have been taken and not told. The inbox is
            # opened anew then, and all ask again.
            self._is_broken = True
            raise

    def close(self) -> None:
        """Hear no more; a guest leaves first, or it would poll what is closed."""
        with self._state:
            if self._is_closed:
                return
            self._is_closed = self._is_broken = True
        until = self._clock.now() + LEAVING
        while self._has_reader() and self._clock.now() < until:
            self._nudges.give()
            time.sleep(0.0005)
        self._link.close()
        self._kicks.close()
        self._nudges.close()


class Kicks:
    """Wakes up a thread that polls."""

    def __init__(self) -> None:
        # An interrupt may strike whoever made it before anybody can close it. The pair is kept
        # apart, and in the finalizer's hands as soon as it is there, so that a collector that
        # finds this in a ring of objects finds no open socket.
        pair: list[socket.socket] = []
        self._unclosed = weakref.finalize(self, _close, pair)
        self._unclosed.atexit = False
        pair.extend(socket.socketpair())
        self._awake, self._kick = pair
        self._awake.setblocking(False)
        self._kick.setblocking(False)
        # What is polled is told once, and not again by each who waits.
        self._polls: dict[int | None, Callable[[float], list[tuple[int, int]]]] = {}

    def wait(self, link: Readable | None, seconds: float) -> tuple[bool, bool]:
        """Wait for a kick or for the link; whether it has something to read, and a kick came."""
        number = None if link is None else link.fileno()
        # Taken out meanwhile: it refuses to be used twice at once, as by a signal handler that
        # waits for a lock while its thread does.
        polls = self._polls
        poll = polls.pop(number, None) or self._poll_of(number)
        ready = poll(seconds * 1000)
        polls[number] = poll
        if len(ready) == 1 and ready[0][0] == number:
            return True, False
        if ready:
            self._swallow()
        return len(ready) > 1, bool(ready)

    def _poll_of(self, number: int | None) -> Callable[[float], list[tuple[int, int]]]:
        poll = here.Poll()
        poll.register(self._awake, here.READ)
        if number is not None:
            poll.register(number, here.READ)
        return poll.poll

    def give(self) -> None:
        """Let the poll return."""
        try:
            self._kick.send(b"!")
        except OSError:
            # Full: it is kicked already. Closed: there is nobody to kick.
            return

    def _swallow(self) -> None:
        """Take all that were given."""
        try:
            while self._awake.recv(4096):
                pass
        except BlockingIOError:
            return

    def close(self) -> None:
        """Let go of the sockets."""
        self._polls = {}  # whoever polls it after this is refused
        _close((self._awake, self._kick))
        # Nothing is left to do when it is dropped: Python would swallow an interrupt in there.
        self._unclosed.detach()


def _close(pair: Iterable[socket.socket]) -> None:
    for one in pair:
        one.close()
