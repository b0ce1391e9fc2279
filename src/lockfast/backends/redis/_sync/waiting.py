# Generated from src/lockfast/backends/redis/_async/waiting.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""How waiting claims are woken on Redis, by messages and by heartbeats."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from lockfast.backends.network.codec import read
from lockfast.backends.redis import replies as redis_replies
from lockfast.backends.redis import requests
from lockfast.backends.waiting._sync.inbox import CHECK_TIMEOUT_SECONDS, WaitPolicy
from lockfast.backends.waiting.schedule import CHECK_MIN_SECONDS, Checked, Timing
from lockfast.core.backoff import spread
from lockfast.errors import LockError
from lockfast.model import FOREVER
from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.backends.redis._sync.topology import AnyTransport
    from lockfast.backends.waiting._sync.inbox import Inbox, Receiver
    from lockfast.backends.waiting.listener_threads import AnyListener
    from lockfast.model import Claim
    from lockfast.runtime.clock import Clock

# A release that admits a claim publishes a message to the inbox of the claim's client. If the
# message proves that the claim holds the name, the claim need not ask
# (docs/decisions/0006-pushed-grants.md). Every few seconds, one heartbeat for many names reports
# that the client is alive, because a line skips the claims of dead clients. A heartbeat also moves
# the lines whose holders died.

HEARTBEAT_SECONDS = 2.0
"""Heartbeat interval of waiting clients, in seconds. The scripts consider a client dead after three
missed heartbeats, or after one if an admission window has run out unanswered meanwhile."""

HEARTBEAT_TOGETHER_SECONDS = 0.25
"""A name whose heartbeat is due within this time is added to the batch."""

NAMES_PER_HEARTBEAT = 32
"""Maximum number of names in one request; a longer script would block the server's other work."""

HEARTBEATS_AT_ONCE = 4
"""Maximum number of requests sent at once; more would stall an event loop."""


@dataclass(slots=True)
class WaitingClaim:
    """A claim that waits in line; `epoch` is its client's epoch at the store.

    `epoch` and `last_token`, the last token granted for the name, are from the reply to a request
    that was sent at `asked_at`.
    """

    claim: Claim
    epoch: int
    last_token: int
    asked_at: float


class RedisWaiting(WaitPolicy):
    """What Redis brings to an inbox: messages, and heartbeats as its checks."""

    timing = Timing(
        steady_seconds=HEARTBEAT_SECONDS,
        together_seconds=HEARTBEAT_TOGETHER_SECONDS,
        names_per_check=NAMES_PER_HEARTBEAT * HEARTBEATS_AT_ONCE,
        subscribe_timeout=2.0,
        unsubscribed_poll_seconds=1.0,
    )

    def __init__(self, transport: AnyTransport, keys: requests.RedisKeys, clock: Clock) -> None:
        self._transport = transport
        self._keys = keys
        self._clock = clock
        self._begin()

    def _begin(self) -> None:
        self._state = runtime.StateLock()
        self._tasks: dict[str, runtime.Task] = {}
        self._queued: dict[str, list[WaitingClaim]] = {}

    def ends_at(self, ends_in: float | None) -> float:
        """Return when the first of the claims inside may end, so that the line could move."""
        if ends_in is None:
            return FOREVER
        return self._clock.now() + spread(ends_in, jitter=self._clock.jitter())

    # -- messages ----------------------------------------------------------------------

    def next_channel(self, channel: str, opened: int) -> str:
        # Use a new channel each time, because messages still on their way to the old one are
        # outdated. The number tells the scripts which channel is the latest.
        del channel
        return f"{opened}.{os.urandom(8).hex()}"

    def subscribe(self, receiver: Receiver, channel: str, *, deadline: float) -> AnyListener:
        channel_name = self._keys.inbox(channel)
        return self._transport.subscribe(channel_name, receiver.hear, deadline=deadline)

    def deliver(self, message: bytes, inbox: Inbox[WaitingClaim]) -> None:
        try:
            if message[:1] == b"*":
                inbox.wake_name(self._keys.name_of(message[1:]))
            else:
                inbox.hear(*redis_replies.wakeup_message(message))
        except ValueError:
            _log.debug("not a message of ours in the inbox: %r", message[:40])

    # -- heartbeats --------------------------------------------------------------------

    def check(self, due: Sequence[WaitingClaim], inbox: Inbox[WaitingClaim]) -> None:
        if not self._transport.is_sharded:
            self._beat(due, inbox, size=NAMES_PER_HEARTBEAT)
            return
        # One request cannot cover names on several servers. Each server gets its own task, so that
        # a slow one does not delay the others.
        asked = [self._request([one], inbox) for one in due]
        for server, numbers in self._transport.parts(asked).items():
            with self._state:
                self._queued.setdefault(server, []).extend(due[i] for i in numbers)
                task = self._tasks.get(server)
                if task is None or not task.is_alive():
                    self._tasks[server] = runtime.spawn(
                        partial(self._send_queued, server, inbox), name="lockfast-beat"
                    )

    def stop(self) -> None:
        """Wait until the heartbeats under way have ended."""
        with self._state:
            self._queued.clear()
            tasks = list(self._tasks.values())
        for one in tasks:
            one.join()

    def after_fork_in_child(self) -> None:
        """Forget the parent's heartbeats."""
        self._begin()

    def _send_queued(self, server: str, inbox: Inbox[WaitingClaim]) -> None:
        """Send everything that is queued for one server."""
        while due := self._next_for(server):
            try:
                self._beat(due, inbox, size=1)
            except Exception as error:  # noqa: BLE001 - the waiters rely on this loop
                _log.warning("a heartbeat failed, and is repeated: %r", error, exc_info=True)

    def _next_for(self, server: str) -> list[WaitingClaim]:
        with self._state:
            due = self._queued.get(server, [])
            self._queued[server] = due[NAMES_PER_HEARTBEAT:]
            if not due:
                # Remove the task under the lock, so that a caller that queues more names starts a
                # new task for them.
                self._tasks.pop(server, None)
            return due[:NAMES_PER_HEARTBEAT]

    def _request(self, due: Sequence[WaitingClaim], inbox: Inbox[WaitingClaim]) -> bytes:
        names = [(self._keys.of(one.claim.name), one.claim.client) for one in due]
        return requests.heartbeat(names, inbox.channel)

    def _beat(self, due: Sequence[WaitingClaim], inbox: Inbox[WaitingClaim], *, size: int) -> None:
        groups = [due[i : i + size] for i in range(0, len(due), size)]
        asked = [self._request(group, inbox) for group in groups]
        try:
            deadline = self._clock.now() + CHECK_TIMEOUT_SECONDS
            replies = self._transport.send_all(asked, deadline=deadline)
        except LockError as error:
            replies = [error] * len(asked)
        is_loaded = False
        for group, reply in zip(groups, replies, strict=True):
            if isinstance(reply, list):
                reading = partial(redis_replies.heartbeat_replies, number=len(group))
                beats = read(reading, reply, transport=self._transport)
                for one, beat in zip(group, beats, strict=True):
                    inbox.checked(one, self._checked(beat))
                continue
            _log.debug("heartbeat not answered: %s", reply)
            if not isinstance(reply, LockError) and not is_loaded:
                # The server refused, most likely because it has lost its scripts.
                self._load()
                is_loaded = True
            for one in group:
                inbox.checked(one, Checked(asks=lambda _: True))

    def _load(self) -> None:
        deadline = self._clock.now() + CHECK_TIMEOUT_SECONDS
        try:
            self._transport.ask(requests.load("beat"), deadline=deadline)
        except LockError as error:
            # Nothing more to do: the waiting claims are woken, ask the store, and report the same
            # problem.
            _log.debug("scripts not loaded: %s", error)

    def _checked(self, beat: redis_replies.HeartbeatReply) -> Checked[WaitingClaim]:
        """Return what a heartbeat's reply says; a claim of another epoch has lost its place."""
        if beat.is_unsettled:
            ends_at = self._clock.now()
        else:
            ends_in = beat.ends_in
            ends_at = self.ends_at(None if ends_in is None else max(CHECK_MIN_SECONDS, ends_in))
        return Checked(ends_at, asks=lambda one: one.epoch != beat.epoch)


_log = logging.getLogger("lockfast")
