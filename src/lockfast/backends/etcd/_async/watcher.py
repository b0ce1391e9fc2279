"""Who wants to know of which key: one stream per session, opened when somebody first does.

A watch speaks once. It begins with the revision after the one that was read, so nothing falls in
between; where that revision is forgotten already, and where the stream is lost, it speaks at once,
and whoever is told reads again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from lockfast._async.single_flight import LAST_WORD, AsyncSingleFlight
from lockfast.backends.etcd import refusals, requests
from lockfast.backends.etcd.answers import Watched, answer
from lockfast.backends.etcd.http2.frames import NotHttp2
from lockfast.backends.etcd.protobuf import Unreadable
from lockfast.errors import BackendUnavailable
from lockfast.runtime import aio as runtime
from lockfast.runtime import forking

if TYPE_CHECKING:
    from lockfast.backends.etcd._async.members import AsyncMembers
    from lockfast.backends.etcd.watching.aio import Watching
    from lockfast.runtime.clock import Clock

Heard = Callable[[Watched | None], None]

LISTEN = 1.0
"""So long at most the background listens without looking around."""

_log = logging.getLogger("lockfast")


class AsyncWatcher:
    """The watches of one session; `lost` is called when all of them were lost together."""

    def __init__(self, members: AsyncMembers, *, clock: Clock, lost: Callable[[], None]) -> None:
        self._members = members
        self._clock = clock
        self._lost = lost
        self._state = runtime.StateLock()
        self._opening = AsyncSingleFlight[None](clock)
        self._numbers = count(1)
        self._watches: dict[int, Heard] = {}
        self._known: dict[Heard, int] = {}
        self._stream: Watching | None = None
        self._task: runtime.Task | None = None
        self._is_closed = False

    async def watch(
        self,
        key: bytes,
        heard: Heard,
        *,
        since: int,
        deletions: bool = False,
        deadline: float,
    ) -> None:
        """Call `heard` once, when something happened to the key from a revision on.

        It gets what happened, or None where nobody knows. One that waits to be called already
        stays as it is: it began earlier.
        """
        stream = await self._opened(deadline)
        with self._state:
            if heard in self._known:
                return
            number = self._known[heard] = next(self._numbers)
            self._watches[number] = heard
        if not stream.say(requests.watch(number, key, since=since, deletions=deletions)):
            self._tell(number)

    def is_watched(self, heard: Heard) -> bool:
        """Whether it waits to be called."""
        return heard in self._known

    async def _opened(self, deadline: float) -> Watching:
        while (stream := self._stream) is None:
            opening = await self._opening.fly(
                partial(self._open, deadline), deadline=deadline + LAST_WORD
            )
            if opening.is_known:
                opening.result()
            if self._is_closed or opening.is_cut_off or self._clock.now() >= deadline:
                raise BackendUnavailable(f"{self._members.where}: nothing can be watched now")
        return stream

    async def _open(self, deadline: float) -> None:
        if self._task is not None:
            await self._task.join()  # it is closing the stream before this one
        stream = await self._members.watch(self._hear, deadline=deadline)
        self._stream = stream
        try:
            self._task = runtime.spawn(partial(self._listen, stream), name="lockfast-watch")
        except BaseException as error:
            # Nobody will read it, so who waits to hear of something would wait for ever.
            await self._end(stream)
            if isinstance(error, RuntimeError):
                raise BackendUnavailable(
                    f"{self._members.where}: no thread could be started to listen to it ({error})"
                ) from error
            raise

    async def _listen(self, stream: Watching) -> None:
        try:
            while not self._is_closed and await stream.listen(until=self._clock.now() + LISTEN):
                pass
        finally:
            # Also where somebody has ended all tasks: whoever watches has to read again.
            await self._end(stream)

    async def _end(self, stream: Watching) -> None:
        self._members.unwatched(stream)
        try:
            self._give_up(stream)
        finally:
            await stream.close()

    def _give_up(self, stream: Watching) -> None:
        with self._state:
            if self._stream is not stream:
                return
            self._stream = None
        for number in list(self._watches):
            self._tell(number)
        if not self._is_closed:
            self._lost()

    # -- whoever reads the stream ------------------------------------------------------

    def _hear(self, message: bytes) -> None:
        try:
            told = answer(Watched, message)
        except Unreadable as error:
            raise NotHttp2(f"an event that cannot be read: {error}") from error
        stream = self._stream
        if told.is_canceled and told.reason and stream is not None:
            # Such as a token that is not known any more: it belongs to the stream.
            _log.debug("a watch was refused: %s", told.reason)
            if refusals.is_stale_watch(told.reason):
                self._members.distrust()
            self._give_up(stream)
            stream.leave()
        elif told.is_canceled:
            self._tell(told.watch)
        elif told.changes:
            if stream is not None:
                stream.answer(requests.unwatch(told.watch))
            self._tell(told.watch, told)

    def _tell(self, number: int, told: Watched | None = None) -> None:
        with self._state:
            heard = self._watches.pop(number, None)
            if heard is not None:
                self._known.pop(heard, None)
        if heard is not None:
            heard(told)

    # -- closing -----------------------------------------------------------------------

    async def close(self) -> None:
        """Hear no more."""
        self._is_closed = True
        await self._opening.end()
        stream, task = self._stream, self._task
        if stream is not None:
            stream.kick()
        if task is not None:
            await task.join()

    def leak(self) -> None:
        """Leave the stream to the parent process, which still uses it."""
        self._is_closed = True
        forking.leak(self._stream)
