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

    from lockfast.model import Claim, Held, Renewal
    from simulation.world import Machine

T = TypeVar("T")


@dataclass(slots=True)
class NetworkConditions:
    """The current network conditions of one client."""

    delay: float
    """Mean delay; most messages take less, and a few so much longer that others overtake them."""
    loss: float = 0.0


class SimulatedStore(MemoryStore):
    """A store whose tokens begin at the same number in every run."""

    def now(self) -> float:
        """Return the store's time."""
        return self._clock.now()


class AsyncSimulatedBackend(AsyncMemoryBackend):
    """One client's backend: each request and each reply is a message on the network."""

    min_ttl: float = 0.01

    def __init__(
        self, *, machine: Machine, store: MemoryStore, conditions: NetworkConditions, seed: int
    ) -> None:
        super().__init__(clock=machine.clock, store=store, location="simulated")
        self._machine = machine
        self._weather = conditions
        self._random = random.Random(seed)  # noqa: S311 - a seed must repeat

    # -- operations --------------------------------------------------------------------

    async def try_acquire(self, claim: Claim, *, deadline: float) -> Grant | Held:
        if claim.client not in self._clients:
            self._clients.add(claim.client)
            self._store.listen(claim.client, self._wake)
        if claim.queues:
            self._wakeups.expect(claim.id)
        answer = await self._ask(lambda: self._store.try_acquire(claim), deadline)
        if isinstance(answer, Grant):
            self._wakeups.forget(claim.id)
        return answer

    async def renew(self, grants: Sequence[Grant], *, deadline: float) -> Sequence[Renewal]:
        return await self._ask(lambda: self._store.renew(grants), deadline)

    async def release(self, grant: Grant, *, deadline: float, tombstone: bool) -> bool:
        return await self._ask(lambda: self._store.release(grant, tombstone=tombstone), deadline)

    async def withdraw(self, claim: Claim, *, deadline: float, tombstone: bool) -> None:
        self._wakeups.forget(claim.id)
        await self._ask(lambda: self._store.withdraw(claim, tombstone=tombstone), deadline)

    # -- messages ----------------------------------------------------------------------

    async def _ask(self, work: Callable[[], T], deadline: float) -> T:
        answered = runtime.WakeEvent()
        answers: list[T] = []

        def arrive(answer: T) -> None:
            answers.append(answer)
            answered.set()

        # Sent on no machine: a message travels on while its sender is frozen.
        self._send(lambda: self._send(arrive, work()))
        if not await runtime.wait_for(answered, deadline=deadline, clock=self._machine.clock):
            raise OutcomeUnknown("no answer came in time")
        return answers[0]

    def _wake(self, claim_id: str) -> None:
        self._send(self._wakeups.wake, claim_id)

    def _send(self, deliver: Callable[..., object], *args: Any) -> None:
        # Drawn for every message, lost or not: otherwise one loss would shift all later draws.
        is_lost = self._random.random() < self._weather.loss
        takes = self._random.expovariate(1.0 / self._weather.delay)
        if not is_lost:
            loop = asyncio.get_running_loop()
            loop.call_later(takes, deliver, *args, context=contextvars.Context())
