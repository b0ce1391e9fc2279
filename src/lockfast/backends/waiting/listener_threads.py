"""One connection that several threads listen to; one thread at a time reads it for all of them."""

from __future__ import annotations

import socket
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from lockfast.platforms import here
from lockfast.runtime import fork

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lockfast.runtime.clock import Clock
    from lockfast.runtime.threads import WakeEvent


LONGEST_TIMER_SECONDS = 3600.0
"""Longest single wait, in seconds, because a lock does not accept infinity as its timeout."""

GUEST_LEAVES_WITHIN_SECONDS = 1.0
"""Longest wait, in seconds, for a guest to leave a listener that is being closed; a guest that is
notified leaves at once."""


class Readable(Protocol):
    """A connection that can be polled."""

    def fileno(self) -> int:
        """Return the file descriptor to poll."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


L = TypeVar("L", bound=Readable)


class Listener(Generic[L]):
    """Listens to one connection; a subclass defines how to read it and which errors mean its end.

    One thread at a time reads the connection. Normally that is the inbox's thread, in `listen`. A
    thread that waits for a wakeup reads the connection itself as a guest, in `wait_for_event`,
    because passing its wakeup from one thread to another would take longer than everything else.

    A guest may be interrupted between any two steps. So the attribute `_reader` names the reader. A
    guest sets the attribute inside a `try`, whose `finally` clears it with a plain assignment. So
    no signal can strike after the attribute is set and before the `try` begins. If an interrupt
    leaves anything else undone, the inbox's thread finds it at the next check, within a second.
    """

    _broken_by: ClassVar[tuple[type[Exception], ...]] = (OSError,)

    def __init__(self, connection: L, *, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._interrupts = SelfPipe()
        try:
            self._guest_wakeups = SelfPipe()
        except BaseException:
            self._interrupts.close()
            raise
        self._reader: threading.Thread | None = None
        self._using = threading.Lock()
        self._state = threading.Lock()
        self._attending: set[threading.Thread] = set()
        self._is_polled = False
        self._is_broken = False
        self._is_closed = False

    def _read(self) -> None:
        """Read once, and deliver the messages that were read."""
        raise NotImplementedError

    def _has_more(self) -> bool:
        """Whether there is data that was read but not delivered, which a poll would not see."""
        return False

    # -- the inbox's thread ------------------------------------------------------------

    def listen(self, *, until: float) -> bool:
        """Deliver messages until `until` or an `interrupt`; false once the connection is broken."""
        me = threading.current_thread()
        while not self._is_broken and (left := until - self._clock.now()) > 0:
            # Set the flag before checking for a reader. A guest becomes the reader before it checks
            # the flag, so either this thread sees the guest, or the guest sees the flag.
            self._is_polled = True
            if self._has_reader():
                self._is_polled = False
            connection = self._connection if self._is_polled else None
            has_data, interrupted = self._poll(connection, self._interrupts, left)
            self._is_polled = False
            if has_data and self._begins_reading(me):
                try:
                    self._read_or_break()
                finally:
                    self._reader = None
            if interrupted:
                break
        return not self._is_broken

    def interrupt(self) -> None:
        """Make `listen` return."""
        self._interrupts.give()

    # -- waiting threads ---------------------------------------------------------------

    def wait_for_event(self, event: WakeEvent, *, deadline: float) -> None:
        """Return when the event is set or the deadline has passed."""
        me = threading.current_thread()
        try:
            self._attending.add(me)
            if not event.is_set():
                self._read_as_guest(me, event, deadline)
            if not event.is_set():
                self._sleep(event, deadline)
        finally:
            self._attending.discard(me)

    def _read_as_guest(self, me: threading.Thread, event: WakeEvent, deadline: float) -> None:
        try:
            if not self._begins_reading(me):
                return
            if self._is_polled:
                self.interrupt()  # this thread reads from now on
            self._listen_for(event, deadline)
        finally:
            if self._reader is me:
                self._reader = None
        if len(self._attending) > 1 or self._is_broken:
            self.interrupt()  # the inbox's thread has to listen for the other waiters

    def _listen_for(self, event: WakeEvent, deadline: float) -> None:
        while not event.is_set() and not self._is_broken:
            left = deadline - self._clock.now()
            if left <= 0:
                return
            has_data, _ = self._poll(self._connection, self._guest_wakeups, left)
            # A fork sets all events in the child, which wakes this thread's copy there. The child
            # must not read data that is meant for its parent.
            if has_data and not event.is_set():
                self._read_or_break()

    def _sleep(self, event: WakeEvent, deadline: float) -> None:
        # Do not wake up every second to check the clock, because hundreds of threads would do
        # nothing else. The listening thread checks the clock, and wakes all waiters after the
        # machine was suspended.
        while not event.is_set():
            left = deadline - self._clock.now()
            if left <= 0:
                return
            event.wait(min(left, LONGEST_TIMER_SECONDS))

    def wake_to_check(self) -> None:
        """Make a guest see that another thread has set its event."""
        if self._reader is not None:
            self._guest_wakeups.give()

    def give_up(self) -> None:
        """Do nothing; a subclass whose opening takes several steps makes it fail at once."""

    def abandon_in_child(self) -> None:
        """Let go of the parent's connection in a forked child, so that it can end before the child.

        Frames of the parent's threads, which the child never runs, keep this object alive.
        """
        if (number := self._connection.fileno()) >= 0:
            fork.abandon_socket(self, number)

    # -- reading -----------------------------------------------------------------------

    def _has_reader(self) -> bool:
        reader = self._reader
        return reader is not None and reader.is_alive()

    def _begins_reading(self, me: threading.Thread) -> bool:
        """Make `me` the reader if there is none; return whether `me` is the reader now."""
        with self._state:
            if self._is_closed or self._has_reader():
                return self._reader is me
            self._reader = me
        return True

    def _poll(self, connection: L | None, interrupts: SelfPipe, left: float) -> tuple[bool, bool]:
        """Wait at most `left` seconds; return whether data came, and whether `give` was called."""
        has_more = connection is not None and self._has_more()
        try:
            # An `interrupt` counts even while there is always more to read, because a server that
            # keeps sending must not stop this thread from returning when it should.
            has_data, interrupted = interrupts.wait(
                connection, 0.0 if has_more else min(left, self._clock.longest_sleep)
            )
        except (OSError, ValueError):
            if self._is_closed:
                return False, True  # another thread has just closed this listener
            raise
        return has_data or has_more, interrupted

    def _read_or_break(self) -> None:
        try:
            with self._using:
                self._read()
        except self._broken_by:
            self._is_broken = True
        except BaseException:
            # An interrupt may leave a message partly read and not delivered. The inbox is then
            # opened again, and all waiters ask again.
            self._is_broken = True
            raise

    def close(self) -> None:
        """Stop listening; give a guest time to leave before the connection is closed."""
        with self._state:
            if self._is_closed:
                return
            self._is_closed = self._is_broken = True
        until = self._clock.now() + GUEST_LEAVES_WITHIN_SECONDS
        while self._has_reader() and self._clock.now() < until:
            self._guest_wakeups.give()
            time.sleep(0.0005)
        self._connection.close()
        self._interrupts.close()
        self._guest_wakeups.close()


AnyListener = Listener[Any]
"""A listener to any kind of connection."""


class SelfPipe:
    """Wakes a thread that polls."""

    def __init__(self) -> None:
        # An interrupt may strike the creator before it can close this object, and the garbage
        # collector may later find the object in a reference cycle. So the sockets are kept in a
        # separate list, which belongs to the finalizer from the start and is closed by it.
        pair: list[socket.socket] = []
        self._unclosed = weakref.finalize(self, _close, pair)
        self._unclosed.atexit = False
        pair.extend(socket.socketpair())
        self._receiver, self._sender = pair
        self._receiver.setblocking(False)
        self._sender.setblocking(False)
        # Poll objects are reused instead of being set up for each wait.
        self._polls: dict[int | None, Callable[[float], list[tuple[int, int]]]] = {}

    def wait(self, connection: Readable | None, seconds: float) -> tuple[bool, bool]:
        """Wait for data or `give`; return whether data came, and whether `give` was called."""
        number = None if connection is None else connection.fileno()
        # Take the poll object out of the cache while it is in use, because it cannot be used twice
        # at once. Otherwise a signal handler that waits for a lock would use it again in the middle
        # of this wait.
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
        poll.register(self._receiver, here.READ)
        if number is not None:
            poll.register(number, here.READ)
        return poll.poll

    def give(self) -> None:
        """Make the poll return."""
        try:
            self._sender.send(b"!")
        except OSError:
            # If the socket is full, a byte is already pending. If it is closed, there is no thread
            # to wake.
            return

    def _swallow(self) -> None:
        """Consume all pending bytes."""
        try:
            while self._receiver.recv(4096):
                pass
        except BlockingIOError:
            return

    def close(self) -> None:
        """Close the sockets."""
        self._polls = {}  # a poll after this is refused
        _close((self._receiver, self._sender))
        # Leave nothing for the finalizer to do, because Python would swallow an interrupt that
        # strikes inside a finalizer.
        self._unclosed.detach()


def _close(pair: Iterable[socket.socket]) -> None:
    for one in pair:
        one.close()
