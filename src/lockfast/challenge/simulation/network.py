"""A store at the other end of a network that delays, loses and reorders."""

from __future__ import annotations

import asyncio
import contextvars
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from lockfast.backends.memory._async.backend import AsyncMemoryBackend
from lockfast.backends.memory.store import MemoryStore
from lockfast.errors import OutcomeUnknown
from lockfast.model import Grant
from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockfast.challenge.simulation.world import Machine
    from lockfast.model import Claim, Held, Renewal

T = TypeVar("T")


@dataclass(slots=True)
class Weather:
    """What the way of one client does to a message just now."""

    delay: float
    """The mean; most take less, few take much more, so that later ones overtake."""
    loss: float = 0.0


class SimulatedStore(MemoryStore):
    """Doors whose tokens begin at the same number in every run."""

    def now(self) -> float:
        """Return the store's time."""
        return self._clock.now()


class AsyncSimulatedBackend(AsyncMemoryBackend):
    """The way of one client to the store: each request and each answer is a message."""

    min_ttl: float = 0.01

    def __init__(
        self, *, machine: Machine, store: MemoryStore, weather: Weather, seed: int
    ) -> None:
        super().__init__(clock=machine.clock, store=store, location="simulated")
        self._machine = machine
        self._weather = weather
        self._random = random.Random(seed)  # noqa: S311 - a seed must repeat

    # -- the verbs ---------------------------------------------------------------------

    async def try_acquire(self, claim: Claim, *, deadline: float) -> Grant | Held:
        """See the protocol."""
        if claim.client not in self._clients:
            self._clients.add(claim.client)
            self._store.listen(claim.client, self._ring)
        if claim.queues:
            self._wakeups.expect(claim.id)
        answer = await self._ask(lambda: self._store.try_acquire(claim), deadline)
        if isinstance(answer, Grant):
            self._wakeups.forget(claim.id)
        return answer

    async def renew(self, grants: Sequence[Grant], *, deadline: float) -> Sequence[Renewal]:
        """See the protocol."""
        return await self._ask(lambda: self._store.renew(grants), deadline)

    async def release(self, grant: Grant, *, deadline: float, tombstone: bool) -> bool:
        """See the protocol."""
        return await self._ask(lambda: self._store.release(grant, tombstone=tombstone), deadline)

    async def withdraw(self, claim: Claim, *, deadline: float, tombstone: bool) -> None:
        """See the protocol."""
        self._wakeups.forget(claim.id)
        await self._ask(lambda: self._store.withdraw(claim, tombstone=tombstone), deadline)

    # -- the messages ------------------------------------------------------------------

    async def _ask(self, work: Callable[[], T], deadline: float) -> T:
        answered = runtime.Event()
        answers: list[T] = []

        def arrive(answer: T) -> None:
            answers.append(answer)
            answered.set()

        # On no machine: a message is under way while its sender is frozen.
        self._send(lambda: self._send(arrive, work()))
        if not await runtime.wait_for(answered, deadline=deadline, clock=self._machine.clock):
            raise OutcomeUnknown("no answer came in time")
        return answers[0]

    def _ring(self, claim_id: str) -> None:
        self._send(self._wakeups.ring, claim_id)

    def _send(self, deliver: Callable[..., object], *args: Any) -> None:  # noqa: ANN401
        # Drawn for every message, lost or not: else one loss would shift all that follows.
        is_lost = self._random.random() < self._weather.loss
        takes = self._random.expovariate(1.0 / self._weather.delay)
        if not is_lost:
            loop = asyncio.get_running_loop()
            loop.call_later(takes, deliver, *args, context=contextvars.Context())
