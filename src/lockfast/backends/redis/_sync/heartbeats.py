# Generated from src/lockfast/backends/redis/_async/heartbeats.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The heartbeats of those who wait: for many names in one request, never for all at once."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from lockfast.backends.redis import answers, requests
from lockfast.backends.redis.lines import NEVER
from lockfast.backends.wires.parsing import read
from lockfast.core.backoff import spread
from lockfast.errors import LockError
from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    from lockfast.backends.redis._sync.connecting import AnyWire
    from lockfast.backends.redis._sync.inbox import Inbox
    from lockfast.backends.redis.lines import Line
    from lockfast.runtime.clock import Clock

SOONEST = 0.02
"""The least time between two heartbeats, however soon a holder's time is up."""

REQUEST = 2.0
"""How long one request of ours may take."""

NAMES = 32
"""As many names go in one request: a script of more would keep the server from all else."""

TOGETHER = 4
"""As many requests are sent at once; more would keep an event loop from all else."""


class Heartbeats:
    """Says of the lines that are due that their claims wait, and takes what comes back."""

    def __init__(self, inbox: Inbox, wire: AnyWire, keys: requests.Keys, clock: Clock) -> None:
        self._inbox = inbox
        self._wire = wire
        self._keys = keys
        self._clock = clock
        self._tasks: dict[str, runtime.Task] = {}
        self._to_say: dict[str, list[Line]] = {}

    def beat(self, now: float) -> None:
        """Speak of some of the names that are due; the others follow when this is called again."""
        with self._inbox.state:
            lines = self._inbox.lines.take_due(now, most=NAMES * TOGETHER)
        if not self._wire.is_sharded:
            self._say(lines, size=NAMES)
            return
        # Names on several servers cannot be spoken of in one request. Each server by itself:
        # one that is slow to answer delays nobody else's.
        asked = [self._request([line]) for line in lines]
        for server, numbers in self._wire.parts(asked).items():
            with self._inbox.state:
                self._to_say.setdefault(server, []).extend(lines[i] for i in numbers)
                task = self._tasks.get(server)
                if task is None or not task.is_alive():
                    self._tasks[server] = runtime.spawn(
                        partial(self._say_to, server), name="lockfast-beat"
                    )

    def stop(self) -> None:
        """Wait for what is under way."""
        with self._inbox.state:
            self._to_say.clear()
            tasks = list(self._tasks.values())
        for one in tasks:
            one.join()

    def _say_to(self, server: str) -> None:
        """Say all that is to be said to one server."""
        while lines := self._next_for(server):
            try:
                self._say(lines, size=1)
            except Exception as error:  # noqa: BLE001 - those who wait rely on the next one
                _log.warning("a heartbeat failed, and is repeated: %r", error, exc_info=True)

    def _next_for(self, server: str) -> list[Line]:
        with self._inbox.state:
            lines = self._to_say.get(server, [])
            self._to_say[server] = lines[NAMES:]
            if not lines:
                # Under the lock: whoever has more to say now sees that nobody is about to.
                self._tasks.pop(server, None)
            return lines[:NAMES]

    def _request(self, lines: list[Line]) -> bytes:
        names = [(self._keys.of(one.name), one.client) for one in lines]
        return requests.beat(names, self._inbox.name)

    def _say(self, lines: list[Line], *, size: int) -> None:
        groups = [lines[i : i + size] for i in range(0, len(lines), size)]
        asked = [self._request(group) for group in groups]
        try:
            deadline = self._clock.now() + REQUEST
            replies = self._wire.ask_all(asked, deadline=deadline)
        except LockError as error:
            replies = [error] * len(asked)
        is_loaded = False
        lost: list[str] = []
        for group, reply in zip(groups, replies, strict=True):
            if isinstance(reply, list):
                beats = read(partial(answers.beats, number=len(group)), reply, wire=self._wire)
                for line, beat in zip(group, beats, strict=True):
                    lost += self._learn(line, beat)
                continue
            _log.debug("heartbeat not answered: %s", reply)
            if not isinstance(reply, LockError) and not is_loaded:
                # Refused: most likely the server has lost its scripts.
                self._load()
                is_loaded = True
            with self._inbox.state:
                lost += [claim_id for line in group for claim_id in line.claims]
        if lost or self._wire.is_sharded:
            self._inbox.ring_later(lost)

    def _load(self) -> None:
        try:
            self._wire.ask(requests.load("beat"), deadline=self._clock.now() + REQUEST)
        except LockError as error:
            # The claims ask by themselves, and meet the same trouble.
            _log.debug("scripts not loaded: %s", error)

    def _learn(self, line: Line, beat: answers.Beat) -> list[str]:
        """Return the claims that lost their place."""
        now = self._clock.now()
        ends_at = NEVER
        if beat.ends_in is not None:
            ends_in = max(SOONEST, beat.ends_in)
            ends_at = now + spread(ends_in, jitter=self._clock.jitter())
        if beat.is_unsettled:
            ends_at = now
        with self._inbox.state:
            return self._inbox.lines.learn(line, ends_at=ends_at, epoch=beat.epoch)


_log = logging.getLogger("lockfast")
