"""What a client of Redis hears: one channel for all its waiting claims, and their heartbeats.

A release that admits a claim publishes that to its client's inbox. The message is a hint; it
is lost if nobody listens, so after every subscription all waiting claims ask again. Where it
proves that the claim holds, it need not ask (docs/decisions/0006-pushed-grants.md). Every few
seconds one request says for all names together that the client still waits: a line does not
wait for the dead. It also lets the lines move whose holders died, so a waiting claim need
not ask by itself, however long it waits.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from holdfast._async.wakeups import AsyncWakeups
from holdfast.core.backoff import delay, spread
from holdfast.errors import ConfigurationError, LockError
from holdfast.runtime import aio as runtime
from holdfast.wire import verbs

if TYPE_CHECKING:
    from holdfast._async.backends.redis.opening import AnyWire
    from holdfast.model import Claim
    from holdfast.runtime.clock import Clock
    from holdfast.wire.ears.aio import Ear

BEAT = 2.0
"""How often waiting clients say that they live; the scripts have patience for three."""

SOONEST = 0.02
"""The least time between two heartbeats, however soon a holder's time is up."""

REQUEST = 2.0
"""How long one request of ours may take."""

AT_ONCE = 32
"""As many names go in one heartbeat, and as many early rings are kept."""

IDLE = 30.0
"""With nobody waiting, the inbox closes after so long; it opens again when needed."""

NEVER = float("inf")


Beaten = tuple[tuple[str, str], bytes]
"""A name and the client that waits for it, and the name's keys."""


@dataclass(slots=True)
class Waiting:
    """A claim that stands in line; `epoch` is what the store knew its client by.

    So it was answered to a request that was sent at `asked_at`, when `last_token` was the
    last that was given for the name. With a token it was admitted.
    """

    claim: Claim
    epoch: int
    last_token: int
    asked_at: float
    ends_at: float
    token: int | None = None

    def hear(self, ring: verbs.Ring) -> None:
        """Take a message that it was admitted, if that was after the last answer.

        Tokens only grow. So one that is larger was given later than the answer, and the
        window that came with it began after we asked. A message with another is of an
        earlier admission, which is over: else the answer would have been a grant.
        """
        if ring.token > max(self.last_token, self.token or 0):
            self.token = ring.token


class AsyncInbox:
    """Rings the claims that should ask again."""

    def __init__(self, wire: AnyWire, keys: verbs.Keys, clock: Clock) -> None:
        self._wire = wire
        self._keys = keys
        self._clock = clock
        self.name = _new_name()
        self._wakeups = AsyncWakeups(clock)
        self._state = runtime.StateLock()
        self._waiting: dict[str, Waiting] = {}
        self._early: dict[str, verbs.Ring] = {}
        self._beat_at = NEVER
        self._ear: Ear | None = None
        self._task: runtime.Task | None = None
        self._beating: dict[str, runtime.Task] = {}
        self._stopping: runtime.Event | None = None
        self._refused: ConfigurationError | None = None

    # -- called by the backend ---------------------------------------------------------

    def stands(self, claim: Claim, place: verbs.Place, *, inbox: str, asked_at: float) -> None:
        """Know that the claim was put in line, or still stands there; where it is rung."""
        now, ends_at = self._clock.now(), NEVER
        if place.ends_in is not None:
            ends_at = now + spread(place.ends_in, jitter=self._clock.jitter())
        waiting = Waiting(claim, place.epoch, place.last_token, asked_at, ends_at)
        with self._state:
            self._wakeups.expect(claim.id)
            self._waiting[claim.id] = waiting
            # Its message may have come before the answer that put it in line.
            early = self._early.pop(claim.id, None)
            if early is not None:
                waiting.hear(early)
            beat_at = min(self._beat_at, ends_at, now + BEAT)
            ear = self._ear if beat_at < self._beat_at else None
            self._beat_at = beat_at
            # Or go to the inbox that was ours when it asked.
            is_rung = early is not None or inbox != self.name
        if is_rung:
            self._wakeups.ring(claim.id)
        if ear is not None:
            ear.kick()

    def forget(self, claim_id: str) -> None:
        """Know that the claim no longer waits."""
        if claim_id in self._waiting:
            with self._state:
                self._waiting.pop(claim_id, None)
                self._wakeups.forget(claim_id)

    def waiting(self, claim_id: str) -> Waiting | None:
        """Return how the claim stands in line, and whether it was admitted, as last heard."""
        return self._waiting.get(claim_id)

    async def wait(self, claim: Claim, *, deadline: float) -> None:
        """Return when the claim should ask again."""
        with self._state:
            if self._task is None or not self._task.is_alive():
                self._refused = None
                self._stopping = runtime.Event()
                self._task = runtime.spawn(self._run, name="holdfast-inbox")
        await self._wakeups.wait(claim.id, deadline=deadline, ear=self._ear)
        if self._refused is not None:
            raise self._refused

    def rouse(self, claim_id: str) -> None:
        """Let a waiting claim ask again."""
        self._ring([claim_id])

    async def stop(self) -> None:
        """Hear no more."""
        with self._state:
            task, ear, stopping = self._task, self._ear, self._stopping
            self._task = None
        if stopping is not None:
            stopping.set()
        if ear is not None:
            ear.kick()
        for one in (task, *self._beating.values()):
            if one is not None:
                await one.join()

    def after_fork_in_child(self) -> None:
        """Start anew: nothing of the parent's waits here."""
        self.__init__(self._wire, self._keys, self._clock)  # type: ignore[misc]

    # -- the background ----------------------------------------------------------------

    async def _run(self) -> None:
        attempt = 0
        stopping = self._stopping
        while stopping is not None and not stopping.is_set():
            with self._state:
                if not self._waiting:
                    # Nobody to listen for: closing need not wait for an attempt in vain.
                    self._task = None
                    return
            # A new name each time: what is still on its way to the old one is not for us.
            self.name = _new_name()
            try:
                deadline = self._clock.now() + REQUEST
                ear = await self._wire.subscribe(
                    self._keys.inbox(self.name), self._hear, deadline=deadline
                )
            except LockError as error:
                # Those who wait ask by themselves meanwhile, and learn what is wrong.
                _log.debug("no inbox: %s", error)
                if isinstance(error, ConfigurationError):
                    self._refused = error
                self._ring_all()
                pause = delay(attempt, jitter=self._clock.jitter())
                attempt += 1
                await runtime.wait_for(
                    stopping, deadline=self._clock.now() + pause, clock=self._clock
                )
                continue
            attempt = 0
            self._refused = None
            try:
                self._ear = ear
                self._ring_all()
                if not await self._attend(ear, stopping):
                    return
            finally:
                self._ear = None
                await ear.close()

    async def _attend(self, ear: Ear, stopping: runtime.Event) -> bool:
        """Listen and beat; false if nobody needs it any more, true if the link broke."""
        idle_since = self._clock.now()
        while not stopping.is_set():
            now = self._clock.now()
            if now >= self._beat_at:
                await self._beat()
                continue
            if self._waiting:
                idle_since = now
            elif now - idle_since > IDLE:
                with self._state:
                    if not self._waiting:
                        self._task = None
                        return False
            if not await ear.listen(until=min(self._beat_at, now + BEAT)):
                return True
        return False

    async def _beat(self) -> None:
        with self._state:
            names = {
                (one.claim.name, one.claim.client): self._keys.of(one.claim.name)
                for one in self._waiting.values()
            }
            self._beat_at = self._clock.now() + BEAT if names else NEVER
        pairs = list(names.items())
        # Names on several servers cannot be spoken of in one request.
        size = 1 if self._wire.is_sharded else AT_ONCE
        groups = [pairs[i : i + size] for i in range(0, len(pairs), size)]
        requests = [
            verbs.beat([(keys, client) for (_, client), keys in group], self.name)
            for group in groups
        ]
        if not self._wire.is_sharded:
            await self._say(groups, requests)
            return
        for server, numbers in self._wire.parts(requests).items():
            # Each server by itself: one that is slow to answer delays nobody else's.
            beating = self._beating.get(server)
            if beating is None or not beating.is_alive():
                part = [groups[i] for i in numbers], [requests[i] for i in numbers]
                self._beating[server] = runtime.spawn(
                    partial(self._say, *part), name="holdfast-beat"
                )

    async def _say(self, groups: list[list[Beaten]], requests: list[bytes]) -> None:
        if not requests:
            return
        try:
            deadline = self._clock.now() + REQUEST
            replies = await self._wire.ask_all(requests, deadline=deadline)
        except LockError as error:
            replies = [error] * len(requests)
        is_loaded = False
        for group, reply in zip(groups, replies, strict=True):
            if isinstance(reply, list):
                for (key, _), beat in zip(group, verbs.beats(reply), strict=True):
                    self._learn(key, beat)
                continue
            _log.debug("heartbeat not answered: %s", reply)
            if not isinstance(reply, LockError) and not is_loaded:
                # Refused: most likely the server has lost its scripts.
                await self._load()
                is_loaded = True
            self._ring_those({key for key, _ in group})
        if self._wire.is_sharded and (ear := self._ear) is not None:
            ear.kick()  # it listens meanwhile, and the next heartbeat may be due sooner now

    async def _load(self) -> None:
        try:
            await self._wire.ask(verbs.load("beat"), deadline=self._clock.now() + REQUEST)
        except LockError as error:
            # The claims ask by themselves, and meet the same trouble.
            _log.debug("scripts not loaded: %s", error)

    def _learn(self, key: tuple[str, str], beat: verbs.Beat) -> None:
        now = self._clock.now()
        ends_at = NEVER
        if beat.ends_in is not None:
            ends_in = max(SOONEST, beat.ends_in)
            ends_at = now + spread(ends_in, jitter=self._clock.jitter())
        if beat.is_unsettled:
            ends_at = now
        with self._state:
            mine = [
                one for one in self._waiting.values() if (one.claim.name, one.claim.client) == key
            ]
            for one in mine:
                one.ends_at = ends_at
            if mine:
                self._beat_at = min(self._beat_at, ends_at)
        self._ring([one.claim.id for one in mine if one.epoch != beat.epoch])

    # -- rings -------------------------------------------------------------------------

    def _hear(self, message: bytes) -> None:
        try:
            if message[:1] == b"*":
                self._hear_of_all(self._keys.name_of(message[1:]))
            else:
                self._hear_of_one(verbs.ring(message))
        except ValueError:
            _log.debug("not a message of ours in the inbox: %r", message[:40])

    def _hear_of_all(self, name: str) -> None:
        with self._state:
            found = [key for key, one in self._waiting.items() if one.claim.name == name]
        for claim_id in found:
            self._wakeups.ring(claim_id)

    def _hear_of_one(self, ring: verbs.Ring) -> None:
        with self._state:
            waiting = self._waiting.get(ring.claim)
            if waiting is None:
                self._early[ring.claim] = ring
                if len(self._early) > AT_ONCE:
                    del self._early[next(iter(self._early))]
                return
            waiting.hear(ring)
        self._wakeups.ring(ring.claim)

    def _ring_those(self, keys: set[tuple[str, str]]) -> None:
        with self._state:
            found = [
                claim_id
                for claim_id, one in self._waiting.items()
                if (one.claim.name, one.claim.client) in keys
            ]
        self._ring(found)

    def _ring_all(self) -> None:
        with self._state:
            found = list(self._waiting)
        self._ring(found)

    def _ring(self, claims: list[str]) -> None:
        """Ring for another reason than a message: then whoever listens must be told."""
        for claim_id in claims:
            self._wakeups.ring(claim_id)
        if claims and (ear := self._ear) is not None:
            ear.nudge()


_log = logging.getLogger("holdfast")


def _new_name() -> str:
    return os.urandom(8).hex()
