"""The subscription of the sync flavour: a connection of its own, read by one thread at a time."""

from __future__ import annotations

import select
import socket
import threading
import time
from typing import TYPE_CHECKING

from holdfast.backends.redis.cluster import listening
from holdfast.backends.redis.resp import MORE, NotRedis, Push

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.backends.redis.connection.threads import Link
    from holdfast.backends.redis.resp import Reply
    from holdfast.runtime.clock import Clock
    from holdfast.runtime.threads import Event

__all__ = ["ClusterSubscription", "Subscription"]


LONGEST = 3600.0
"""No wait is longer: a lock cannot wait for an infinite time that has a number."""

LEAVING = 1.0
"""How long a guest may take to leave one that is closed; it is told, and leaves at once."""


class Subscription:
    """A connection of its own that hears one channel.

    One thread at a time reads it. That is the inbox's, in `listen`, unless a thread waits
    for a ring: such a guest reads by itself in `attend`, so that what it waits for does not
    have to be handed from one thread to another first, which takes longer than all the rest.

    A guest may be interrupted between any two steps. So who reads is told by an attribute that
    names the reader, and the reader clears it by a bare assignment in a `finally` that was
    entered before: no signal can strike between the two. All else that an interrupt leaves
    undone the inbox's thread finds when it next looks, which is after a second at most.
    """

    def __init__(self, link: Link, hear: Callable[[bytes], None], *, clock: Clock) -> None:
        self._link = link
        self.generation = link.generation
        self._hear = hear
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
            links = [self._link] if self._is_polled else []
            heard, kicked = self._poll(links, self._kicks, left)
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
            heard, _ = self._poll([self._link], self._nudges, left)
            if heard:
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
        except BaseException:
            # An interrupt: a part of a message may have been taken and not told. The inbox is
            # opened anew then, and all ask again.
            self._is_broken = True
            raise

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
        until = self._clock.now() + LEAVING
        while self._has_reader() and self._clock.now() < until:
            self._nudges.give()
            time.sleep(0.0005)
        self._link.close()
        self._kicks.close()
        self._nudges.close()


class ClusterSubscription(Subscription):
    """Hears one channel, and notices when the node falls silent or leaves the cluster.

    The node may serve none of our names: then no request of ours would notice it.
    """

    def __init__(self, link: Link, hear: Callable[[bytes], None], *, clock: Clock) -> None:
        super().__init__(link, hear, clock=clock)
        self._heard_at = clock.now()
        self._asked_at = self._heard_at
        self._question = b""
        self._is_deaf = False

    def asking(self, channel: bytes) -> ClusterSubscription:
        """Know what to ask the node, now and then."""
        self._question = listening.question(channel)
        return self

    def listen(self, *, until: float) -> bool:
        """Tell of what is heard until then, or until kicked; false once the node is gone, or deaf.

        A kick is how a guest that read the answer makes that known.
        """
        now = self._clock.now()
        if self._is_deaf:
            return False
        if self._asked_at > self._heard_at:
            if now - self._asked_at > listening.PATIENCE:
                return False
        elif now - self._heard_at >= listening.ASK_EVERY:
            self._asked_at = now
            try:
                with self._using:  # a guest may be reading it, and TLS bears one at a time
                    self._link.send(self._question, deadline=now + listening.PATIENCE)
            except OSError:
                return False
        return super().listen(until=until) and not self._is_deaf

    def _read(self) -> None:
        super()._read()
        self._heard_at = self._clock.now()

    def _answered(self, reply: Reply) -> None:
        self._is_deaf = listening.is_deaf(reply)
        if self._is_deaf:
            self.kick()


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
