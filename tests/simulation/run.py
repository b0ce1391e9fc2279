"""One seed: clients contend while faults strike, one kind after the other; then it is quiet."""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lockfast import AsyncLocks
from lockfast.errors import AcquireTimeout, LeaseLost, LockError
from lockfast_challenge.checker.exclusion import violations
from lockfast_challenge.checker.holds import all_grants
from lockfast_challenge.history import HistoryEvent, operations
from simulation.network import AsyncSimulatedBackend, NetworkConditions, SimulatedStore
from simulation.world import DriftingClock, Machine, World

if TYPE_CHECKING:
    from lockfast.backends.memory.store import MemoryStore
    from lockfast_challenge.checker.exclusion import Violation
    from lockfast_challenge.history import Act, Phase

NAME = "door"
FAST_SECONDS = 0.001
SHORT_TURN_SHARE = 0.8
AIMED_SHARE = 0.7
"""Share of the single-machine faults that strike the holder's machine: it has most to lose."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is simulated. `drift` is the largest relative error of a clock's rate, fast or slow."""

    clients: int = 4
    seconds: float = 14.0
    """How long faults strike, in seconds; the quiet stretch that follows lasts until every client
    was served."""
    patience: float = 30.0
    """Seconds of the quiet stretch after which a client that was not served has starved."""
    ttl: float = 1.0
    drift: float = 0.004
    store: type[MemoryStore] = SimulatedStore


@dataclass(slots=True)
class SimulationOutcome:
    """The outcome of one seed."""

    seed: int
    events: list[HistoryEvent] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    starved: list[str] = field(default_factory=list)
    """Clients that asked throughout the quiet stretch and were never served."""

    @property
    def is_valid(self) -> bool:
        """Whether nothing was wrong."""
        return not self.violations and not self.starved

    def counts(self) -> Counter[str]:
        """Return how often each kind of event happened; the same for the same seed."""
        return Counter(f"{event.act} {event.phase}" for event in self.events)


def simulate(seed: int, scenario: Scenario | None = None) -> SimulationOutcome:
    """Simulate one seed and judge it."""
    scenario = Scenario() if scenario is None else scenario
    with asyncio.Runner(debug=False, loop_factory=World) as runner:
        outcome: SimulationOutcome = runner.run(_Play(seed, scenario).play())
    outcome.violations = violations(all_grants(operations(outcome.events)))
    return outcome


class _Play:
    def __init__(self, seed: int, scenario: Scenario) -> None:
        self._scenario = scenario
        self._random = random.Random(seed)  # noqa: S311 - a seed must repeat
        self._conditions = [NetworkConditions(delay=FAST_SECONDS) for _ in range(scenario.clients)]
        self._holder: int | None = None
        self._outcome = SimulationOutcome(seed)
        self._quiet_since: float | None = None
        self._starving = {str(number) for number in range(scenario.clients)}

    async def play(self) -> SimulationOutcome:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, World)
        self._loop = loop
        store = self._scenario.store(DriftingClock(loop, drift=0.0, seed=0))
        machines = [self._machine() for _ in range(self._scenario.clients)]
        tasks = [
            loop.create_task(self._client(str(number), machine, store), context=machine.context())
            for number, machine in enumerate(machines)
        ]
        nemesis = loop.create_task(self._break(machines), context=contextvars.Context())
        await asyncio.gather(nemesis, *tasks)
        self._outcome.starved = sorted(self._starving)
        return self._outcome

    def _is_over(self) -> bool:
        if self._quiet_since is None:
            return False
        return not self._starving or self._loop.time() > self._quiet_since + self._scenario.patience

    def _machine(self) -> Machine:
        drift = self._random.uniform(-self._scenario.drift, self._scenario.drift)
        return Machine(self._loop, drift=drift, seed=self._random.getrandbits(32))

    # -- faults ------------------------------------------------------------------------

    async def _break(self, machines: list[Machine]) -> None:
        ends = self._loop.time() + self._scenario.seconds
        ttl = self._scenario.ttl
        while self._loop.time() < ends:
            # Draw everything before looking at any state: the current holder must not shift later
            # draws.
            kind = self._random.choice(("freeze", "loss", "delay", "slow, then cut", "nothing"))
            length = ttl * self._random.uniform(0.2, 2.0)
            strength = self._random.random()
            anybody = self._random.randrange(len(machines))
            aims_at_holder = self._random.random() < AIMED_SHARE
            aimed = self._holder if aims_at_holder and self._holder is not None else anybody
            if kind == "freeze":
                machines[aimed].freeze(length)
                await asyncio.sleep(length)
            elif kind == "loss":
                await self._degrade(self._conditions, length, loss=0.1 + 0.6 * strength)
            elif kind == "delay":
                await self._degrade(self._conditions, length, delay=0.6 * ttl * strength)
            elif kind == "slow, then cut":
                # Make replies late, then lose them all: a client that counts from a reply counts
                # too long.
                one = [self._conditions[aimed]]
                await self._degrade(one, length, delay=0.5 * ttl * strength)
                await self._degrade(one, 1.5 * ttl, loss=1.0)
            else:
                await asyncio.sleep(length)
        self._quiet_since = self._loop.time()

    async def _degrade(
        self,
        affected: list[NetworkConditions],
        seconds: float,
        *,
        loss: float = 0.0,
        delay: float = 0.0,
    ) -> None:
        for conditions in affected:
            conditions.loss, conditions.delay = loss, FAST_SECONDS + delay
        await asyncio.sleep(seconds)
        for conditions in affected:
            conditions.loss, conditions.delay = 0.0, FAST_SECONDS

    # -- clients -----------------------------------------------------------------------

    async def _client(self, name: str, machine: Machine, store: MemoryStore) -> None:
        seed = self._random.getrandbits(32)
        backend = AsyncSimulatedBackend(
            machine=machine, store=store, conditions=self._conditions[int(name)], seed=seed
        )
        draw = random.Random(seed + 1)  # noqa: S311 - a seed must repeat
        ttl = self._scenario.ttl
        # A short timeout, so that a request is repeated while the effect of the first request
        # lasts.
        locks = AsyncLocks.from_backend(
            backend, clock=machine.clock, ttl=ttl, request_timeout=0.3 * ttl
        )
        diary = _Diary(name, self._loop, self._outcome.events)
        while not self._is_over():
            await asyncio.sleep(draw.uniform(0.0, 0.1))
            await self._turn(locks, diary, draw)
        await locks.aclose()

    async def _turn(self, locks: AsyncLocks, diary: _Diary, draw: random.Random) -> None:
        ttl = self._scenario.ttl
        # Most turns are short; in a long turn the lease is renewed several times.
        checks = draw.randrange(6) if draw.random() < SHORT_TURN_SHARE else 15
        plan = [draw.uniform(0.0, 0.3 * ttl) for _ in range(checks)]
        diary.begin("acquire")
        try:
            lease = await locks.lock(NAME).acquire(timeout=5.0 * ttl)
        except AcquireTimeout:
            return diary.end("fail")
        except LockError:
            return diary.end("unknown")
        diary.end("ok", token=lease.token)
        self._holder = int(diary.client)
        if self._quiet_since is not None:
            self._starving.discard(diary.client)
        for seconds in plan:
            await asyncio.sleep(seconds)
            diary.begin("check")
            diary.end("ok" if lease.is_trusted else "fail")
        self._holder = None
        diary.begin("release")
        try:
            await lease.release()
        except LeaseLost:
            return diary.end("fail")
        except LockError:
            return diary.end("unknown")
        return diary.end("ok")


class _Diary:
    """The events that one client records."""

    def __init__(self, client: str, loop: World, events: list[HistoryEvent]) -> None:
        self.client = client
        self._loop = loop
        self._events = events
        self._number = self._hold = 0
        self._act: Act = "acquire"

    def begin(self, act: Act) -> None:
        self._number += 1
        self._act = act
        if act == "acquire":
            self._hold = self._number
        self._write("invoked")

    def end(self, phase: Phase, *, token: int | None = None) -> None:
        self._write(phase, token)

    def _write(self, phase: Phase, token: int | None = None) -> None:
        self._events.append(
            HistoryEvent(
                at=self._loop.time(),
                client=self.client,
                act=self._act,
                phase=phase,
                number=self._number,
                hold=self._hold,
                name=NAME,
                token=token,
            )
        )
