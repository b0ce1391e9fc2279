"""What a client of Redis hears: one channel for all its waiting claims, and their heartbeats.

A release that admits a claim publishes that to its client's inbox. The message is a hint; it
is lost if nobody listens, so after every subscription all waiting claims ask again. Where it
proves that the claim holds, it need not ask (docs/decisions/0006-pushed-grants.md). Every few
seconds a request says for many names together that the client still waits: a line does not
wait for the dead. It also lets the lines move whose holders died, so a waiting claim need
not ask by itself, however long it waits.

Whoever waits relies on the background: so it outlives every error, and if it is ended all
the same, those who wait are rung, find nobody listening, and begin it anew.
"""

from __future__ import annotations

import logging
import os
from functools import partial
from typing import TYPE_CHECKING

from lockfast._async.wakeups import AsyncWakeups
from lockfast.backends.redis import answers, requests
from lockfast.backends.redis._async.heartbeats import REQUEST, AsyncHeartbeats
from lockfast.backends.redis.lines import BEAT, NEVER, Lines, Waiting
from lockfast.core.backoff import delay, spread
from lockfast.errors import ConfigurationError, LockError
from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from lockfast.backends.redis._async.connecting import AnyWire
    from lockfast.backends.redis.subscription.aio import Subscription
    from lockfast.model import Claim
    from lockfast.runtime.clock import Clock

AT_ONCE = 32
"""As many claims are rung together, because a thousand tasks that wake up in one turn of an
event loop make it stand still; and as many early rings are kept."""

BREATH = 0.001
"""Between two times that so many are rung."""

IDLE = 30.0
"""With nobody waiting, the inbox closes after so long; it opens again when needed."""

OVERSLEPT = 1.0
"""Who wakes up so much later than planned has slept with the machine, and so have all timers."""

LOOK_AGAIN = 1.0
"""Where no background can be begun, a waiting claim asks by itself this often."""


class AsyncListening:
    """One run of the background; it exists before its task does, and the inbox knows it."""

    def __init__(self) -> None:
        self.stopping = runtime.Event()
        self.ended = runtime.Event()
        self.has_begun = False
        self.task: runtime.Task | None = None

    def is_alive(self) -> bool:
        """Whether it can be relied on; not if whoever began it was interrupted in the middle."""
        return self.task is not None and self.task.is_alive()


class AsyncInbox:
    """Rings the claims that should ask again."""

    def __init__(self, wire: AnyWire, keys: requests.Keys, clock: Clock) -> None:
        self._wire = wire
        self._keys = keys
        self._clock = clock
        self._opened = 0
        self.name = _new_name(0)
        self._wakeups = AsyncWakeups(clock)
        self.state = runtime.StateLock()
        self.lines = Lines()
        self._early: dict[str, answers.Ring] = {}
        self._rung_later: list[str] = []
        self._subscription: Subscription | None = None
        self._looks_at = NEVER
        """When the background looks by itself for what is due."""
        self._listening: AsyncListening | None = None
        self._runs: set[AsyncListening] = set()
        self._heartbeats = AsyncHeartbeats(self, wire, keys, clock)
        self._refused: ConfigurationError | None = None

    # -- called by the backend ---------------------------------------------------------

    def stands(self, claim: Claim, in_line: answers.InLine, *, inbox: str, asked_at: float) -> None:
        """Know that the claim was put in line, or still stands there; where it is rung."""
        now, ends_at = self._clock.now(), NEVER
        if in_line.ends_in is not None:
            ends_at = now + spread(in_line.ends_in, jitter=self._clock.jitter())
        waiting = Waiting(claim, in_line.epoch, in_line.last_token, asked_at)
        with self.state:
            self._wakeups.expect(claim.id)
            self.lines.stands(waiting, now=now, ends_at=ends_at)
            # Its message may have come before the answer that put it in line.
            early = self._early.pop(claim.id, None)
            if early is not None:
                waiting.hear(early)
            # To wake it for no more than what it finds in time costs as much as all the rest.
            is_sooner = self.lines.due_at() < self._looks_at
            subscription = self._subscription if is_sooner else None
            # Or go to another inbox than this one, which was opened since it asked.
            is_rung = early is not None or inbox != self.name
        if is_rung:
            self._wakeups.ring(claim.id)
        if subscription is not None:
            subscription.kick()

    def forget(self, claim_id: str) -> None:
        """Know that the claim no longer waits."""
        if claim_id in self.lines.waiting:
            with self.state:
                self.lines.forget(claim_id)
                self._wakeups.forget(claim_id)

    async def wait(self, claim: Claim, *, deadline: float) -> None:
        """Return when the claim should ask again."""
        if not self._is_listening():
            deadline = min(deadline, self._clock.now() + LOOK_AGAIN)
        await self._wakeups.wait(claim.id, deadline=deadline, subscription=self._subscription)
        if self._refused is not None:
            raise self._refused

    def rouse(self, claim_id: str) -> None:
        """Let a waiting claim ask again."""
        self._ring([claim_id])

    async def stop(self) -> None:
        """Hear no more; what is interrupted here ends by itself, and may be waited for again."""
        self._listening = None  # whoever listens sees it, whatever becomes of the rest
        with self.state:
            runs, subscription = list(self._runs), self._subscription
        for one in runs:
            one.stopping.set()
        if subscription is not None:
            subscription.kick()
        for one in runs:
            if one.task is not None:
                await one.task.join()
            elif one.has_begun:
                await runtime.wait_for(one.ended, deadline=NEVER, clock=self._clock)
        await self._heartbeats.stop()

    def after_fork_in_child(self) -> None:
        """Start anew: nothing of the parent's waits here."""
        self.__init__(self._wire, self._keys, self._clock)  # type: ignore[misc]

    # -- the background ----------------------------------------------------------------

    def _is_listening(self) -> bool:
        """Whether there is a background, after beginning one if there was not."""
        listening = self._listening
        if listening is not None and listening.is_alive():
            return True
        with self.state:
            if self._listening is not None and self._listening.is_alive():
                return True
            self._refused = None
            run = self._listening = AsyncListening()
            self._runs.add(run)
            try:
                run.task = runtime.spawn(partial(self._run, run), name="lockfast-inbox")
            except RuntimeError as error:
                _log.warning("no thread for the inbox; waiting claims ask by themselves: %s", error)
                self._listening = None
                self._runs.discard(run)
                return False
        return True

    def _is_wanted(self, run: AsyncListening) -> bool:
        return self._listening is run and not run.stopping.is_set()

    async def _run(self, run: AsyncListening) -> None:
        run.has_begun = True
        try:
            await self._keep_listening(run)
        finally:
            with self.state:
                self._runs.discard(run)
                if self._listening is run:
                    self._listening = None
                left = list(self.lines.waiting)
            run.ended.set()
            # Cancelled, most likely, by somebody who cancelled all there was. Those who still
            # wait are not told otherwise, and would sleep for ever.
            self._ring(left)

    async def _keep_listening(self, run: AsyncListening) -> None:
        attempt = 0
        while self._is_wanted(run):
            with self.state:
                if not self.lines.waiting:
                    # Nobody to listen for: closing need not wait for an attempt in vain.
                    self._listening = None
                    return
            try:
                if not await self._listen(run):
                    return
                attempt = 0
                continue
            except LockError as error:
                _log.debug("no inbox: %s", error)
                if isinstance(error, ConfigurationError):
                    self._refused = error
            except Exception as error:  # noqa: BLE001 - whatever it is, somebody relies on us
                # A provider of passwords, a full table of descriptors, a defect of our own.
                _log.warning("the inbox failed, and is opened again: %r", error, exc_info=True)
            # Those who wait ask by themselves meanwhile, and learn what is wrong.
            await self._ring_all(run)
            pause = delay(attempt, jitter=self._clock.jitter())
            attempt += 1
            until = self._clock.now() + pause
            await runtime.wait_for(run.stopping, deadline=until, clock=self._clock)

    async def _listen(self, run: AsyncListening) -> bool:
        """Open the inbox and attend to it; true if it has to be opened again."""
        number = self._opened + 1
        # A new name each time: what is still on its way to the old one is not for us.
        name = _new_name(number)
        deadline = self._clock.now() + REQUEST
        subscription = await self._wire.subscribe(
            self._keys.inbox(name), self._hear, deadline=deadline
        )
        try:
            # Known only now: what is published to a name that nobody hears yet would be lost,
            # and its claim would be rung by nobody.
            self._opened, self.name = number, name
            self._subscription, self._refused = subscription, None
            await self._ring_all(run)
            return await self._attend(subscription, run)
        finally:
            if self._subscription is subscription:
                self._subscription = None
            await subscription.close()

    async def _attend(self, subscription: Subscription, run: AsyncListening) -> bool:
        """Listen and beat; false if nobody needs it any more, true if the link broke."""
        idle_since = self._clock.now()
        while self._is_wanted(run):
            if self._rung_later:
                with self.state:
                    found, self._rung_later = self._rung_later, []
                await self._ring_each(found, run)
            now = self._clock.now()
            with self.state:
                due_at = self.lines.due_at()
                # In one step: who stands in line from here on sees until when this sleeps.
                self._looks_at = until = min(due_at, now + BEAT)
            if now >= due_at:
                await self._heartbeats.beat(now)
                continue
            if self.lines.waiting:
                idle_since = now
            elif now - idle_since > IDLE:
                with self.state:
                    if not self.lines.waiting:
                        self._listening = None
                        return False
            if not await subscription.listen(until=until):
                return True
            if self._clock.now() > until + OVERSLEPT:
                await self._ring_all(run)  # their own timers are late, and so is all they know
        return False

    # -- rings -------------------------------------------------------------------------

    def _hear(self, message: bytes) -> None:
        try:
            if message[:1] == b"*":
                self._hear_of_all(self._keys.name_of(message[1:]))
            else:
                self._hear_of_one(answers.ring(message))
        except ValueError:
            _log.debug("not a message of ours in the inbox: %r", message[:40])

    def _hear_of_all(self, name: str) -> None:
        with self.state:
            found = self.lines.of_name(name)
        self.ring_later(found)

    def _hear_of_one(self, ring: answers.Ring) -> None:
        with self.state:
            waiting = self.lines.waiting.get(ring.claim)
            if waiting is None:
                self._early[ring.claim] = ring
                if len(self._early) > AT_ONCE:
                    del self._early[next(iter(self._early))]
                return
            waiting.hear(ring)
        self._wakeups.ring(ring.claim)

    def ring_later(self, claims: list[str]) -> None:
        """Let the background ring them; what it has learned may also be due sooner."""
        with self.state:
            self._rung_later += claims
        if (subscription := self._subscription) is not None:
            subscription.kick()

    async def _ring_all(self, run: AsyncListening) -> None:
        with self.state:
            found = list(self.lines.waiting)
        await self._ring_each(found, run)

    async def _ring_each(self, claims: list[str], run: AsyncListening) -> None:
        """Ring them a few at a time."""
        for i in range(0, len(claims), AT_ONCE):
            if i:
                until = self._clock.now() + BREATH
                await runtime.wait_for(run.stopping, deadline=until, clock=self._clock)
            self._ring(claims[i : i + AT_ONCE])

    def _ring(self, claims: list[str]) -> None:
        """Ring for another reason than a message: then whoever listens must be told."""
        for claim_id in claims:
            self._wakeups.ring(claim_id)
        if claims and (subscription := self._subscription) is not None:
            subscription.nudge()


_log = logging.getLogger("lockfast")


def _new_name(number: int) -> str:
    """Return a name that nobody had before, numbered so that the scripts know the last one."""
    return f"{number}.{os.urandom(8).hex()}"
