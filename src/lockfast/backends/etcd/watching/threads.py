"""The watch stream of the sync flavour: a connection of its own, read by one thread at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.backends.etcd.http2.calls import Streamed
from lockfast.backends.etcd.http2.frames import NotHttp2
from lockfast.backends.etcd.watching.pulse import Due, Pulse
from lockfast.runtime.reading import ReadByTurns

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockfast.backends.etcd.connection.threads import Link
    from lockfast.backends.etcd.http2.calls import Broken, Refusal
    from lockfast.runtime.clock import Clock

__all__ = ["Watching"]

SAID_WITHIN = 5.0
"""So long it may take to say something, which is short."""


class Watching(ReadByTurns["Link"]):
    """One stream; what is heard on it is told by whichever thread reads it."""

    _broken_by = (OSError, NotHttp2)

    def __init__(
        self, link: Link, head: bytes, hear: Callable[[bytes], None], *, clock: Clock
    ) -> None:
        super().__init__(link, clock=clock)
        self._stream = Streamed(head, hear, self.leave)
        self._pulse = Pulse(clock.now())
        link.talk.begin(self._stream)
        try:
            link.flush(deadline=clock.now() + SAID_WITHIN)
        except BaseException:  # no descriptor left, or an interrupt: nobody will close them
            self._kicks.close()
            self._nudges.close()
            raise

    @property
    def end(self) -> Refusal | Broken | None:
        """Why the member has ended it, if it has."""
        return self._stream.end

    @property
    def awaits_a_sign(self) -> bool:
        """Whether the member was asked if it is there, and has not answered."""
        return self._pulse.awaits_a_sign

    def say(self, message: bytes) -> bool:
        """Ask for a watch, or for the end of one; false if the stream is broken."""
        return self._say(lambda: self._link.talk.add(self._stream, message))

    def answer(self, message: bytes) -> None:
        """Say something from within what hears: it goes out when all is heard."""
        self._link.talk.add(self._stream, message)

    def _say(self, prepare: Callable[[], None]) -> bool:
        try:
            with self._using:  # somebody may be reading, and TLS bears one at a time
                if not self._is_broken:
                    prepare()
                    self._link.flush(deadline=self._clock.now() + SAID_WITHIN)
        except OSError:
            self.leave()
        except BaseException:
            self.leave()  # an interrupt: a part of it may have gone out
            raise
        return not self._is_broken

    def leave(self) -> None:
        """Let it be over, from any thread and from within what hears; whoever listens closes it."""
        self._is_broken = True
        self.kick()

    def listen(self, *, until: float) -> bool:
        """Tell of what is heard until then, or until kicked; false once the stream is broken."""
        due = self._pulse.due(self._clock.now())
        if due is Due.LEAVE:
            self.leave()
        elif due is Due.ASK:
            self._say(self._link.talk.ping)
        return super().listen(until=until)

    def _has_more(self) -> bool:
        return self._link.has_buffered()

    def _read(self) -> None:
        deadline = self._clock.now() + 1.0
        self._link.read(deadline=deadline)
        self._link.flush(deadline=deadline)
        self._pulse.heard(self._clock.now())
