"""The watch stream of the sync flavour: a connection of its own, read by one thread at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.backends.etcd.http2.calls import Streamed
from holdfast.backends.etcd.http2.frames import NotHttp2
from holdfast.runtime.reading import ReadByTurns

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.backends.etcd.connection.threads import Link
    from holdfast.backends.etcd.http2.calls import Broken, Refusal
    from holdfast.runtime.clock import Clock

__all__ = ["Watching"]

PING_EVERY = 10.0
"""Where nothing was heard for so long, the member is asked whether it is there. By default it
takes who asks more often than every 5 s for a nuisance, and hangs up."""

PATIENCE = 5.0
"""So long it may take to answer that."""


class Watching(ReadByTurns["Link"]):
    """One stream; what is heard on it is told by whichever thread reads it."""

    _broken_by = (OSError, NotHttp2)

    def __init__(
        self, link: Link, head: bytes, hear: Callable[[bytes], None], *, clock: Clock
    ) -> None:
        super().__init__(link, clock=clock)
        self._stream = Streamed(head, hear, self._break)
        self._heard_at = clock.now()
        self._asked_at = 0.0
        link.talk.begin(self._stream)
        try:
            link.flush(deadline=clock.now() + PATIENCE)
        except BaseException:
            self._kicks.close()
            self._nudges.close()
            raise

    @property
    def end(self) -> Refusal | Broken | None:
        """Why the member has ended it, if it has."""
        return self._stream.end

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
                    self._link.flush(deadline=self._clock.now() + PATIENCE)
        except OSError:
            self._break()
        except BaseException:
            self._break()  # an interrupt: a part of it may have gone out
            raise
        return not self._is_broken

    def _break(self) -> None:
        self._is_broken = True
        self.kick()

    def listen(self, *, until: float) -> bool:
        """Tell of what is heard until then, or until kicked; false once the stream is broken."""
        now = self._clock.now()
        if self._asked_at > self._heard_at:
            if now - self._asked_at > PATIENCE:
                return False
        elif now - self._heard_at >= PING_EVERY:
            self._asked_at = now
            self._say(self._link.talk.ping)
        return super().listen(until=until)

    def _has_more(self) -> bool:
        return self._link.has_buffered()

    def _read(self) -> None:
        deadline = self._clock.now() + 1.0
        self._link.read(deadline=deadline)
        self._link.flush(deadline=deadline)
        self._heard_at = self._clock.now()
