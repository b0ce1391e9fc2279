"""One seed: clients contend while one kind of fault after the other strikes; then it is quiet."""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lockfast import AsyncLocks
from lockfast.challenge.checker.holds import definite_holds
from lockfast.challenge.checker.sweep import violations
from lockfast.challenge.history import Event, operations
from lockfast.challenge.simulation.network import AsyncSimulatedBackend, SimulatedStore, Weather
from lockfast.challenge.simulation.world import DriftingClock, Machine, World
from lockfast.errors import AcquireTimeout, LeaseLost, LockError

if TYPE_CHECKING:
    from lockfast.backends.memory.store import MemoryStore
    from lockfast.challenge.checker.sweep import Violation
    from lockfast.challenge.history import Act, Phase

NAME = "door"
FAST = 0.001
SHORT = 0.8
AIMED = 0.7
"""How much of what strikes one machine strikes the holder's: it has most to lose."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is simulated. Drift is by how much, at most, a clock runs too fast or too slow."""

    clients: int = 4
    seconds: float = 14.0
    """For so long faults strike; what then is quiet lasts until everybody was served."""
    patience: float = 30.0
    """Whoever was not served in so long a quiet stretch has starved."""
    ttl: float = 1.0
    drift: float = 0.004
    store: type[MemoryStore] = SimulatedStore


@dataclass(slots=True)
class Outcome:
    """What one seed came to."""

    seed: int
    events: list[Event] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    starved: list[str] = field(default_factory=list)
    """Clients that asked all through the quiet stretch and got nothing."""

    @property
    def is_valid(self) -> bool:
        """Whether nothing was wrong."""
        return not self.violations and not self.starved

    def counts(self) -> Counter[str]:
        """Return how often what happened; the same for the same seed."""
        return Counter(f"{event.act} {event.phase}" for event in self.events)


def simulate(seed: int, scenario: Scenario | None = None) -> Outcome:
    """Play one seed and judge it."""
    scenario = Scenario() if scenario is None else scenario
    with asyncio.Runner(debug=False, loop_factory=World) as runner:
        outcome: Outcome = runner.run(_Play(seed, scenario).play())
    outcome.violations = violations(definite_holds(operations(outcome.events)))
    return outcome


class _Play:
    def __init__(self, seed: int, scenario: Scenario) -> None:
        self._scenario = scenario
        self._random = random.Random(seed)  # noqa: S311 - a seed must repeat
        self._weathers = [Weather(delay=FAST) for _ in range(scenario.clients)]
        self._holder: int | None = None
        self._outcome = Outcome(seed)
        self._quiet_since: float | None = None
        self._starving = {str(number) for number in range(scenario.clients)}

    async def play(self) -> Outcome:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, World)  # noqa: S101 - simulate makes it
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

    # -- what breaks -------------------------------------------------------------------

    async def _break(self, machines: list[Machine]) -> None:
        ends = self._loop.time() + self._scenario.seconds
        ttl = self._scenario.ttl
        while self._loop.time() < ends:
            # All is drawn before anything is looked at: who holds must not shift what follows.
            kind = self._random.choice(("freeze", "loss", "delay", "slow, then cut", "nothing"))
            length = ttl * self._random.uniform(0.2, 2.0)
            strength = self._random.random()
            anybody = self._random.randrange(len(machines))
            aims_at_holder = self._random.random() < AIMED
            aimed = self._holder if aims_at_holder and self._holder is not None else anybody
            if kind == "freeze":
                machines[aimed].freeze(length)
                await asyncio.sleep(length)
            elif kind == "loss":
                await self._spoil(self._weathers, length, loss=0.1 + 0.6 * strength)
            elif kind == "delay":
                await self._spoil(self._weathers, length, delay=0.6 * ttl * strength)
            elif kind == "slow, then cut":
                # Late answers first, and then none: whoever counts from an answer counts too long.
                one = [self._weathers[aimed]]
                await self._spoil(one, length, delay=0.5 * ttl * strength)
                await self._spoil(one, 1.5 * ttl, loss=1.0)
            else:
                await asyncio.sleep(length)
        self._quiet_since = self._loop.time()

    async def _spoil(
        self, weathers: list[Weather], seconds: float, *, loss: float = 0.0, delay: float = 0.0
    ) -> None:
        for weather in weathers:
            weather.loss, weather.delay = loss, FAST + delay
        await asyncio.sleep(seconds)
        for weather in weathers:
            weather.loss, weather.delay = 0.0, FAST

    # -- what the clients do -----------------------------------------------------------

    async def _client(self, name: str, machine: Machine, store: MemoryStore) -> None:
        seed = self._random.getrandbits(32)
        backend = AsyncSimulatedBackend(
            machine=machine, store=store, weather=self._weathers[int(name)], seed=seed
        )
        draw = random.Random(seed + 1)  # noqa: S311 - a seed must repeat
        ttl = self._scenario.ttl
        # A request is repeated while what the first one did still lasts.
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
        # Most are short; a long one is renewed several times.
        checks = draw.randrange(6) if draw.random() < SHORT else 15
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
    """What one client writes down."""

    def __init__(self, client: str, loop: World, events: list[Event]) -> None:
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
            Event(
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
