# Generated from src/lockfast/backends/etcd/_async/watcher.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""Watches on keys: one stream per session, opened for the first watch.

A watch fires once. It starts at the revision after the last read, so no change in between is
missed. If that revision has been compacted, or the stream is lost, the watch fires at once, and its
callback reads again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from lockfast.backends._sync.single_flight import FLIGHT_GRACE_SECONDS, SingleFlight
from lockfast.backends.etcd import errors, requests
from lockfast.backends.etcd.http2.frames import NotHttp2
from lockfast.backends.etcd.protobuf import UnreadableMessage
from lockfast.backends.etcd.replies import Watched, read_reply
from lockfast.backends.waiting._sync.background import Background
from lockfast.errors import BackendUnavailable
from lockfast.runtime import fork
from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    from lockfast.backends.etcd._sync.members import Members
    from lockfast.backends.etcd.connection_threads import WatchStream
    from lockfast.backends.waiting._sync.background import BackgroundRun
    from lockfast.runtime.clock import Clock

WatchCallback = Callable[[Watched | None], None]

LISTEN_MAX_SECONDS = 1.0
"""Upper bound for one receive of the background task, in seconds."""

_log = logging.getLogger("lockfast")


class Watcher:
    """The watches of one session; `lost` is called when all watches were lost together."""

    def __init__(self, members: Members, *, clock: Clock, lost: Callable[[], None]) -> None:
        self._members = members
        self._clock = clock
        self._lost = lost
        self._state = runtime.StateLock()
        self._opening = SingleFlight[None](clock)
        self._numbers = count(1)
        self._watches: dict[int, WatchCallback] = {}
        self._known: dict[WatchCallback, int] = {}
        self._stream: WatchStream | None = None
        self._unclosed: WatchStream | None = None
        """The stream that was opened last, until it is closed. The run that reads it closes it,
        unless that run was stopped before it could begin."""
        self._background = Background(self._listen, name="lockfast-watch", clock=clock)
        self._is_closed = False

    def watch(
        self,
        key: bytes,
        heard: WatchCallback,
        *,
        since: int,
        deletions: bool = False,
        deadline: float,
    ) -> None:
        """Call `heard` once, at the first change of the key from revision `since` on.

        The callback gets the event, or None if the watch was lost and the change is unknown. If the
        callback is registered already, its earlier watch stays in use.
        """
        stream = self._opened(deadline)
        with self._state:
            if heard in self._known:
                return
            number = self._known[heard] = next(self._numbers)
            self._watches[number] = heard
        if not stream.send(requests.watch(number, key, since=since, deletions=deletions)):
            self._tell(number)

    def is_watched(self, heard: WatchCallback) -> bool:
        """Whether the callback is still waiting to be called."""
        return heard in self._known

    def _opened(self, deadline: float) -> WatchStream:
        while (stream := self._stream) is None:
            opening = self._opening.run_shared(
                partial(self._open, deadline), deadline=deadline + FLIGHT_GRACE_SECONDS
            )
            if opening.is_known:
                opening.result()
            if self._is_closed or opening.is_stopped or self._clock.now() >= deadline:
                raise BackendUnavailable(f"{self._members.where}: nothing can be watched now")
        return stream

    def _open(self, deadline: float) -> None:
        self._stop()  # the previous stream may not be closed yet
        stream = self._members.watch(self._on_message, deadline=deadline)
        self._unclosed = self._stream = stream
        is_read = False
        try:
            is_read = self._background.is_running()
        finally:
            if not is_read:
                # Nobody would read the stream, so its watches would never fire.
                self._end(stream)
        if not is_read:
            raise BackendUnavailable(
                f"{self._members.where}: no thread could be started to listen to it"
            )

    def _listen(self, run: BackgroundRun) -> bool:
        """Read the stream until it ends; a stream of its own is opened for each run."""
        stream = self._unclosed
        if stream is None:
            return False
        try:
            while not self._is_closed and self._background.is_wanted(run):
                if not stream.listen(until=self._clock.now() + LISTEN_MAX_SECONDS):
                    break
        finally:
            # This must run even if all tasks were cancelled, because every client that watches must
            # read again.
            self._end(stream)
        return False

    def _end(self, stream: WatchStream) -> None:
        self._members.stream_ended(stream)
        try:
            self._give_up(stream)
        finally:
            stream.close()
            self._unclosed = None

    def _give_up(self, stream: WatchStream) -> None:
        with self._state:
            if self._stream is not stream:
                return
            self._stream = None
        for number in list(self._watches):
            self._tell(number)
        if not self._is_closed:
            self._lost()

    # -- called by the reader of the stream --------------------------------------------

    def _on_message(self, message: bytes) -> None:
        try:
            told = read_reply(Watched, message)
        except UnreadableMessage as error:
            raise NotHttp2(f"an event that cannot be read: {error}") from error
        stream = self._stream
        if told.is_canceled and told.reason and stream is not None:
            # The reason may be an expired token, for example, which affects the whole stream.
            _log.debug("a watch was refused: %s", told.reason)
            if errors.is_stale_watch(told.reason):
                self._members.discard_token()
            self._give_up(stream)
            stream.leave()
        elif told.is_canceled:
            self._tell(told.watch)
        elif told.changes:
            if stream is not None:
                stream.reply(requests.unwatch(told.watch))
            self._tell(told.watch, told)

    def _tell(self, number: int, told: Watched | None = None) -> None:
        with self._state:
            heard = self._watches.pop(number, None)
            if heard is not None:
                self._known.pop(heard, None)
        if heard is not None:
            heard(told)

    # -- closing -----------------------------------------------------------------------

    def close(self) -> None:
        """End all watches."""
        self._is_closed = True
        self._opening.end()
        self._background.end()
        if (stream := self._stream) is not None:
            stream.interrupt()
        self._stop()

    def _stop(self) -> None:
        """Stop reading the stream, and close it if the run that should read it never began."""
        self._background.stop()
        if self._unclosed is not None:
            self._end(self._unclosed)

    def abandon_connection(self) -> None:
        """Abandon the stream in a forked child; the parent process still uses it."""
        self._is_closed = True
        self._background.after_fork_in_child()
        fork.abandon(self._unclosed)
