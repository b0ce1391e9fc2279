"""The ear of the sync flavour: a connection of its own, read by one thread at a time."""

from __future__ import annotations

import select
import socket
import threading
from typing import TYPE_CHECKING

from holdfast.runtime.threads import wait_for
from holdfast.wire.resp import MORE, NotRedis, Push

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.runtime.clock import Clock
    from holdfast.runtime.threads import Event
    from holdfast.wire.resp import Reply
    from holdfast.wire.threads import Link


class Ear:
    """A connection of its own that hears one channel.

    One thread at a time reads it. That is the inbox's, in `listen`, unless a thread waits
    for a ring: such a guest reads by itself in `attend`, so that what it waits for does not
    have to be handed from one thread to another first, which takes longer than all the rest.
    """

    def __init__(self, link: Link, hear: Callable[[bytes], None], *, clock: Clock) -> None:
        self._link = link
        self.generation = link.generation
        self._hear = hear
        self._clock = clock
        self._kicks = Kicks()
        self._nudges = Kicks()
        self._seat = threading.Lock()
        self._using = threading.Lock()
        self._state = threading.Lock()
        self._attending = 0
        self._is_polled = False
        self._is_broken = False
        self._is_closed = False

    # -- the inbox's thread ------------------------------------------------------------

    def listen(self, *, until: float) -> bool:
        """Tell of what is heard until then, or until kicked; false once the link is broken."""
        while not self._is_broken and (left := until - self._clock.now()) > 0:
            # Said before looking at the seat: a guest takes the seat before looking at this,
            # so one of the two sees the other.
            self._is_polled = True
            if self._seat.locked():
                self._is_polled = False
            links = [self._link] if self._is_polled else []
            heard, kicked = self._poll(links, self._kicks, left)
            self._is_polled = False
            if heard and self._seat.acquire(blocking=False):
                try:
                    self._read_or_break()
                finally:
                    self._seat.release()
            if kicked:
                break
        return not self._is_broken

    def kick(self) -> None:
        """Let `listen` return."""
        self._kicks.give()

    # -- whoever waits -----------------------------------------------------------------

    def attend(self, event: Event, *, deadline: float) -> None:
        """Return when the event is set or the deadline has passed."""
        with self._state:
            self._attending += 1
        try:
            if not event.is_set() and self._seat.acquire(blocking=False):
                self._be_guest(event, deadline)
            wait_for(event, deadline=deadline, clock=self._clock)
        finally:
            with self._state:
                self._attending -= 1

    def _be_guest(self, event: Event, deadline: float) -> None:
        try:
            if self._is_polled:
                self.kick()  # it is ours to listen now
            self._listen_for(event, deadline)
        finally:
            self._seat.release()
            if self._attending > 1 or self._is_broken:
                self.kick()  # somebody has to listen for the others

    def _listen_for(self, event: Event, deadline: float) -> None:
        while not event.is_set() and not self._is_broken:
            left = deadline - self._clock.now()
            if left <= 0:
                return
            heard, _ = self._poll([self._link], self._nudges, left)
            if heard:
                self._read_or_break()

    def nudge(self) -> None:
        """Let a guest see that its event was set by somebody else than itself."""
        if self._seat.locked():
            self._nudges.give()

    # -- reading -----------------------------------------------------------------------

    def _poll(self, links: list[Link], kicks: Kicks, left: float) -> tuple[bool, bool]:
        """Wait for one of them, at most so long; whether there is something to read, and a kick."""
        if any(one.has_buffered() for one in links):
            return True, False
        poll = select.poll()
        poll.register(kicks, select.POLLIN)
        for one in links:
            poll.register(one, select.POLLIN)
        ready = poll.poll(min(left, self._clock.longest_sleep) * 1000)
        number = kicks.fileno()
        kick = [one for one, _ in ready if one == number]
        if kick:
            kicks.swallow()
        return len(ready) > len(kick), bool(kick)

    def _read_or_break(self) -> None:
        try:
            with self._using:
                self._read()
        except (OSError, NotRedis):
            self._is_broken = True

    def _read(self) -> None:
        # One read; whatever whole messages it brought are told.
        link = self._link
        push = link.receive(deadline=self._clock.now() + 1.0)
        while push is not MORE:
            if not isinstance(push, Push):
                self._answered(push)
            elif push.items[0] == b"message":
                self._hear(push.items[2])
            push = link.buffered()

    def _answered(self, reply: Reply) -> None:
        """Do nothing: nobody asked."""

    def shut(self) -> None:
        """Let `listen` find the link broken."""
        self._link.shut()

    def close(self) -> None:
        """Hear no more; a guest leaves first, or it would poll what is closed."""
        with self._state:
            if self._is_closed:
                return
            self._is_closed = self._is_broken = True
        self._nudges.give()
        with self._seat:
            self._link.close()
        self._kicks.close()
        self._nudges.close()


class Kicks:
    """Wakes up a thread that polls."""

    def __init__(self) -> None:
        self._awake, self._kick = socket.socketpair()
        self._awake.setblocking(False)
        self._kick.setblocking(False)

    def fileno(self) -> int:
        """Return what is polled."""
        return self._awake.fileno()

    def give(self) -> None:
        """Let the poll return."""
        try:
            self._kick.send(b"!")
        except OSError:
            # Full: it is kicked already. Closed: there is nobody to kick.
            return

    def swallow(self) -> None:
        """Take all that were given."""
        try:
            while self._awake.recv(4096):
                pass
        except BlockingIOError:
            return

    def close(self) -> None:
        """Let go of the sockets."""
        self._awake.close()
        self._kick.close()
