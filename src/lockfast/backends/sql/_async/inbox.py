"""What a client hears of its waiting claims: one channel for all of them, and their looks.

Where the server can ring, a release that lets a claim in rings the channel of its client. That
is a hint; it is lost if nobody listens, so after every subscription all waiting claims ask again.
Every few seconds one statement looks at all lines in which claims of ours stand: for the rings
that nobody sends, because a holder died, or whoever was let in before us.

A server that cannot ring is the same without the channel, and so is one behind a pooler that
gives connections away between two transactions: there that look is taken more often.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from lockfast._async.wakeups import AsyncWakeups
from lockfast.backends.sql._async.background import AsyncBackground
from lockfast.backends.sql.lines import NEVER, Lines
from lockfast.backends.sql.ringing import WATCH, NoPush, new_channel
from lockfast.core.backoff import delay
from lockfast.errors import ConfigurationError, LockError
from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from lockfast.backends.sql._async.background import AsyncRun
    from lockfast.backends.sql._async.ears import AsyncEars, AsyncSubscription
    from lockfast.backends.sql._async.wire import AsyncWire
    from lockfast.backends.sql.lines import Sight
    from lockfast.backends.sql.looking import Looking
    from lockfast.model import Claim
    from lockfast.runtime.clock import Clock

AT_ONCE = 32
"""As many claims are rung together, because a thousand tasks that wake up in one turn of an
event loop make it stand still; and as many early rings are kept."""

BREATH = 0.001
"""Between two times that so many are rung."""

IDLE = 30.0
"""With nobody waiting, the listening connection is given back after so long."""

OVERSLEPT = 1.0
"""Who wakes up so much later than planned has slept with the machine, and so have all timers."""

UNHEARD = 0.25
"""Until somebody listens, the first of ours at a name asks by itself so often."""

UNHEARD_BEHIND = 1.0
"""And the others so often, where nobody will listen or look for them."""

REQUEST = 2.0
"""How long one look may take."""

OPENING = 3.0
"""How long it may take to begin to listen, and to prove that something is heard."""

TRY_AGAIN = 60.0
"""Where nothing was heard though no pooler was seen, it is tried again after so long."""

LONGEST = 5.0
"""So long one listens before looking around."""

MOST = 500
"""As many lines are looked at in one statement."""


class AsyncInbox:
    """Rings the claims that should ask again; without `ears` by looking alone."""

    def __init__(
        self, wire: AsyncWire[Any], looking: Looking, clock: Clock, *, ears: AsyncEars | None
    ) -> None:
        self._wire = wire
        self._looking = looking
        self._clock = clock
        self._ears = ears
        self._begin()

    def _begin(self) -> None:
        self.channel = new_channel()
        self.state = runtime.StateLock()
        self.lines = Lines(rings=self._ears is not None)
        self._wakeups = AsyncWakeups(self._clock)
        self._called: dict[str, None] = {}
        self._subscription: AsyncSubscription | None = None
        self._opening: AsyncSubscription | None = None
        self._is_opening = False
        self._refused: ConfigurationError | None = None
        self._unheard_until = NEVER if self._ears is None else 0.0
        self._has_told = False
        self._background = AsyncBackground(self._run, name="lockfast-inbox", clock=self._clock)

    # -- called by the backend ---------------------------------------------------------

    @property
    def bell(self) -> str:
        """What stands in the row of a waiting claim: the channel, unless it is rung in vain."""
        return self.channel if self.lines.rings or self._ears is None else ""

    @property
    def push(self) -> bool | None:
        """Whether the server's messages reach us; None if nobody has tried, or not lately."""
        if self._subscription is not None:
            return True
        return False if self._clock.now() < self._unheard_until else None

    def was_called(self, claim_id: str) -> bool:
        """Whether a message came for the claim since it last asked."""
        with self.state:
            was_called = claim_id in self._called
            self._called.pop(claim_id, None)
        return was_called

    def stands(self, claim: Claim, arrived: int, sight: Sight) -> None:
        """Know that the claim was put in line, or still stands there."""
        with self.state:
            self._wakeups.expect(claim.id)
            before = self.lines.due_at()
            self.lines.stands(claim, arrived, sight, now=self._clock.now())
            is_due_sooner = self.lines.due_at() < before
            # Its message may have come before the answer that put it in line.
            is_called = claim.id in self._called
        if is_called:
            self._wakeups.ring(claim.id)
        if is_due_sooner:
            self._kick()

    def forget(self, claim_id: str) -> None:
        """Know that the claim no longer waits."""
        self._called.pop(claim_id, None)
        if self.lines.are_any:
            with self.state:
                self.lines.forget(claim_id, now=self._clock.now())
                self._wakeups.forget(claim_id)

    def lose(self, claim: Claim) -> None:
        """Know that the claim was turned away, and so most likely all of ours at its name.

        They ask again, without a place that they rely on.
        """
        with self.state:
            found = self.lines.behind(claim)
        self.ring(found)
        for claim_id in found:
            self.forget(claim_id)

    async def wait(self, claim: Claim, *, deadline: float) -> None:
        """Return when the claim should ask again."""
        is_running = self._background.is_running()
        subscription = self._subscription if is_running else None
        now = self._clock.now()
        if not is_running or (subscription is None and now >= self._unheard_until):
            if self.lines.is_first(claim):
                deadline = min(deadline, now + UNHEARD)
            elif not is_running:
                deadline = min(deadline, now + UNHEARD_BEHIND)
        await self._wakeups.wait(claim.id, deadline=deadline, subscription=subscription)
        if self._refused is not None:
            raise self._refused

    def ring(self, claims: list[str]) -> None:
        """Let them ask, for another reason than a message: whoever listens must be told."""
        for claim_id in claims:
            self._wakeups.ring(claim_id)
        if claims and (subscription := self._subscription) is not None:
            subscription.nudge()

    def call(self, claims: list[str]) -> None:
        """Let those ask whom a transaction of our own has let in."""
        for claim_id in claims:
            self._hear_of(claim_id)
        if claims and (subscription := self._subscription) is not None:
            subscription.nudge()

    async def stop(self) -> None:
        """Hear no more; what is interrupted here ends by itself, and may be waited for again."""
        await self._background.stop(kick=self._end)

    def _end(self) -> None:
        self._kick()
        if self._is_opening:
            # Nobody waits for a proof that may take seconds: a task is cancelled, and a thread
            # is told.
            self._background.cancel()
            if (opening := self._opening) is not None:
                opening.give_up()

    def after_fork_in_child(self) -> None:
        """Start anew: nothing of the parent's waits here."""
        inherited = (self._subscription, self._opening)
        self._begin()
        for one in inherited:
            if one is not None:
                one.disinherit()

    def _kick(self) -> None:
        self._background.kick()
        if (subscription := self._subscription) is not None:
            subscription.kick()

    # -- the background ----------------------------------------------------------------

    async def _run(self, run: AsyncRun) -> None:
        try:
            await self._keep_listening(run)
        finally:
            self._background.leave(run)
            # Cancelled, most likely, by somebody who cancelled all there was. Those who still
            # wait are not told otherwise, and would sleep for ever.
            with self.state:
                left = self.lines.waiting
            self.ring(left)

    async def _keep_listening(self, run: AsyncRun) -> None:
        self._refused = None
        attempt = 0
        while self._background.is_wanted(run):
            with self.state:
                if not self.lines.are_any:
                    # Nobody to listen for: closing need not wait for an attempt in vain.
                    self._background.leave(run)
                    return
            try:
                if self._ears is None or self._clock.now() < self._unheard_until:
                    await self._poll(run)
                elif not await self._listen(self._ears, run):
                    return
                attempt = 0
                continue
            except NoPush as error:
                self._go_without(error)
                continue
            except LockError as error:
                _log.debug("no inbox: %s", error)
                if isinstance(error, ConfigurationError):
                    self._refused = error
            except Exception as error:  # noqa: BLE001 - whatever it is, somebody relies on us
                _log.warning("the inbox failed, and is opened again: %r", error, exc_info=True)
            # Those who wait ask by themselves meanwhile, and learn what is wrong.
            await self._ring_all(run)
            pause = delay(attempt, jitter=self._clock.jitter())
            attempt += 1
            until = self._clock.now() + pause
            await runtime.wait_for(run.stopping, deadline=until, clock=self._clock)

    def _go_without(self, error: NoPush) -> None:
        self._unheard_until = NEVER if error.is_for_good else self._clock.now() + TRY_AGAIN
        with self.state:
            self.lines.rings = False
        if not self._has_told:
            self._has_told = True
            _log.warning("%s", error)

    async def _listen(self, ears: AsyncEars, run: AsyncRun) -> bool:
        """Open the inbox and attend to it; true if it has to be opened again."""
        subscription = await self._opened(ears, run)
        try:
            with self.state:
                self.lines.rings = True
            self._subscription, self._refused = subscription, None
            # What was rung before somebody listened is lost.
            await self._look_for_all(run)
            return await self._attend(subscription, run)
        finally:
            if self._subscription is subscription:
                self._subscription = None
            await subscription.close()

    async def _opened(self, ears: AsyncEars, run: AsyncRun) -> AsyncSubscription:
        def begun(subscription: AsyncSubscription) -> None:
            self._opening = subscription
            if not self._background.is_wanted(run):
                subscription.give_up()  # closed meanwhile, before there was one to be told

        self._is_opening = True
        try:
            return await ears.subscribe(
                self.channel, self._hear, deadline=self._clock.now() + OPENING, begun=begun
            )
        finally:
            self._is_opening, self._opening = False, None

    async def _attend(self, subscription: AsyncSubscription, run: AsyncRun) -> bool:
        """Listen and look; false if nobody needs it any more, true if the link broke."""
        idle_since = self._clock.now()
        while self._background.is_wanted(run):
            now = self._clock.now()
            with self.state:
                due_at, are_any = self.lines.due_at(), self.lines.are_any
            if now >= due_at:
                await self._look(run)
                continue
            if are_any:
                idle_since = now
            elif now - idle_since > IDLE and self._ends(run):
                return False
            until = min(due_at, now + LONGEST)
            if not await subscription.listen(until=until):
                return True
            if self._clock.now() > until + OVERSLEPT:
                await self._look_for_all(run)  # their own timers are late, and so is all they know
        return False

    async def _poll(self, run: AsyncRun) -> None:
        """Look, until nobody has waited for a while or it is time to try to listen again."""
        idle_since = self._clock.now()
        while True:
            run.kicked.clear()  # before looking around: whoever kicks has changed something
            now = self._clock.now()
            if now >= self._unheard_until or not self._background.is_wanted(run):
                return
            with self.state:
                due_at, are_any = self.lines.due_at(), self.lines.are_any
            if are_any:
                idle_since = now
            elif now - idle_since > IDLE:
                return
            if now >= due_at:
                await self._look(run)
                continue
            until = min(due_at, self._unheard_until, now + LONGEST)
            await runtime.wait_for(run.kicked, deadline=until, clock=self._clock)
            if are_any and self._clock.now() > until + OVERSLEPT:
                await self._look_for_all(run)  # their own timers are late, and so is all they know

    def _ends(self, run: AsyncRun) -> bool:
        with self.state:
            if self.lines.are_any:
                return False
            self._background.leave(run)
        return True

    async def _look(self, run: AsyncRun) -> None:
        now = self._clock.now()
        with self.state:
            glances = self.lines.take_due(now, most=MOST)
        try:
            rows = await self._wire.ask(self._looking.request(glances), deadline=now + REQUEST)
        except LockError as error:
            # Whoever waits asks, and meets the same trouble.
            _log.debug("a look was not answered: %s", error)
            await self._ring_each([one.claim_id for one in glances], run)
            return
        called: list[str] = []
        now = self._clock.now()
        with self.state:
            for glance, sight in zip(glances, self._looking.sights(glances, rows), strict=True):
                called += self.lines.learn(glance, sight, now=now)
                self._called.update(dict.fromkeys(called))
        await self._ring_each(called, run)

    # -- rings -------------------------------------------------------------------------

    def _hear(self, message: str) -> None:
        if message.startswith(WATCH):
            self._look_later(message.removeprefix(WATCH))
        else:
            self._hear_of(message)

    def _look_later(self, claim_id: str) -> None:
        """Look when the window is over of the one who was let in before this claim."""
        with self.state:
            before = self.lines.due_at()
            self.lines.watch(claim_id, now=self._clock.now())
            is_due_sooner = self.lines.due_at() < before
        if is_due_sooner:
            self._kick()

    def _hear_of(self, claim_id: str) -> None:
        with self.state:
            self._called[claim_id] = None
            if len(self._called) > AT_ONCE and claim_id not in self.lines:
                stale = [one for one in self._called if one not in self.lines]
                for one in stale[:-AT_ONCE]:
                    del self._called[one]
        self._wakeups.ring(claim_id)

    async def _look_for_all(self, run: AsyncRun) -> None:
        """Look at every line, and let those ask whom a look at the first of a line may miss."""
        with self.state:
            self.lines.look_now(now=self._clock.now())
            found = self.lines.sharing
        await self._ring_each(found, run)

    async def _ring_all(self, run: AsyncRun) -> None:
        with self.state:
            found = self.lines.waiting
        await self._ring_each(found, run)

    async def _ring_each(self, claims: list[str], run: AsyncRun) -> None:
        """Ring them a few at a time."""
        for i in range(0, len(claims), AT_ONCE):
            if i:
                until = self._clock.now() + BREATH
                await runtime.wait_for(run.stopping, deadline=until, clock=self._clock)
            self.ring(claims[i : i + AT_ONCE])


_log = logging.getLogger("lockfast")
