# Generated from src/lockfast/testing/_async/contract/subject.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""What the laws are tried on: one store per test, and clients of it."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from lockfast._sync.locks import Locks
from lockfast.events import Reconnected, StoreError
from lockfast.model import Capabilities, Claim, Owner
from lockfast.testing import threads as runner
from lockfast.testing._sync.faulty import FaultyBackend

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockfast._sync.backend import Backend
    from lockfast.events import Event
    from lockfast.runtime.clock import Clock

F = TypeVar("F")


def requires(capability: str) -> Callable[[F], F]:
    """Mark a test that only a backend with this capability has to pass."""

    def mark(test: F) -> F:
        test.__dict__.setdefault("requires", []).append(capability)
        return test

    return mark


class Subject:
    """The backend under test. A subclass says how it is opened."""

    capabilities: ClassVar[Capabilities]
    ttl: ClassVar[float] = 0.6
    """Short, for the tests that wait for its end."""

    long_ttl: ClassVar[float] = 30.0
    """For all others: it does not run out while a test looks on, however slow the machine is."""

    slack: ClassVar[float] = 1.0
    """How much later than it must, a thing may happen on a busy machine."""

    patience: ClassVar[float] = 30.0
    """What only a hang outlasts, where no time is on trial."""

    request_timeout: ClassVar[float] = 10.0
    """For clients whose own patience is not on trial: a store may stand still for seconds."""

    late: ClassVar[float] = 0.0
    """How much later than after its ttl the store may end what a silent client held, or open
    what a min_hold kept closed."""

    virtual_time: ClassVar[bool] = False
    """Whether an asyncio test may run on virtual time: the store's clock is the client's."""

    clock: Clock

    def set_up(self) -> None:
        """Make a fresh store for one test."""

    def tear_down(self) -> None:
        """Remove it."""

    def make_backend(self, clock: Clock) -> Backend:
        """Return a new client's backend on this test's store."""
        raise NotImplementedError

    def make_locks(self, backend: Backend, **options: Any) -> Locks:
        """Return a client of the backend."""
        return Locks.from_backend(backend, clock=self.clock, **options)

    # -- for the tests -----------------------------------------------------------------

    def locks(self, **options: Any) -> Locks:
        """Return a new client; it is closed when the test ends."""
        return self._opened(self.make_backend(self.clock), **options)

    def faulty(self, **options: Any) -> tuple[Locks, FaultyBackend]:
        """Return a new client whose backend fails on command."""
        backend = FaultyBackend(self.make_backend(self.clock), clock=self.clock)
        return self._opened(backend, **options), backend

    def raw(self) -> Backend:
        """Return a backend with no client around it: nobody renews or withdraws for it."""
        backend = self.make_backend(self.clock)
        self._to_close.append(backend)
        return backend

    def crash(self, backend: Backend) -> None:
        """Let the client of a raw backend fall silent, as if its process had been killed.

        Where each claim ends by its ttl it is silent anyway; a session has to be left.
        """
        if self.capabilities.ends_by == "session":
            backend.disown(f"raw{id(self):x}", deadline=self.soon())

    def pass_ttl(self, ttl: float | None = None) -> None:
        """Let the time pass after which nothing is left of a silent holder."""
        self.pass_time((ttl or self.ttl) * 1.05 + self.late)

    def claim(self, name: str, **fields: Any) -> Claim:
        """Return a claim for the raw backend."""
        values: dict[str, Any] = {
            "id": os.urandom(16).hex(),
            "name": name,
            "client": f"raw{id(self):x}",
            "owner": Owner(host="raw", pid=1).to_text(),
            "weight": 1,
            "capacity": 1,
            "ttl": self.ttl,
        }
        return Claim(**{**values, **fields})

    def soon(self) -> float:
        """Return a deadline for one request."""
        return self.clock.now() + self.request_timeout

    def pass_time(self, seconds: float) -> None:
        """Let time pass, because time is what the test is about."""
        deadline = self.clock.now() + seconds
        runner.until(lambda: self.clock.now() >= deadline, clock=self.clock, within=1e9)

    def until(self, condition: Callable[[], object], *, within: float | None = None) -> None:
        """Wait until the condition is true; fail when it does not come true in time."""
        runner.until(
            condition, clock=self.clock, within=self.patience if within is None else within
        )

    def until_waiting(self, locks: Locks, name: str, number: int = 1) -> None:
        """Wait until so many claims stand in the line."""
        deadline = self.clock.now() + self.patience
        while len(locks.inspect(name).line) < number:
            assert self.clock.now() < deadline, f"nobody joined the line of {name!r}"
            self.pass_time(0.002)

    def assert_free(self, name: str, *, within: float = 10.0) -> None:
        """Assert that nobody holds or waits, now or very soon."""
        locks = self.locks()
        deadline = self.clock.now() + within
        while True:
            seen = locks.inspect(name)
            if not seen.holders and not seen.line:
                return
            assert self.clock.now() < deadline, f"left behind: {seen}"
            self.pass_time(0.01)

    # -- how a test is run -------------------------------------------------------------

    def _opened(self, backend: Any, **options: Any) -> Locks:
        options.setdefault("ttl", self.long_ttl)
        options.setdefault("request_timeout", self.request_timeout)
        locks = self.make_locks(backend, **options)
        self._to_close.append(locks)
        return locks

    def _run(self, test: Callable[[Any], Any]) -> None:
        self.clock = runner.clock()
        self._to_close: list[Any] = []
        self.set_up()
        try:
            test(self)
        finally:
            for one in reversed(self._to_close):
                one.close()
            self.tear_down()

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        declared = getattr(cls, "capabilities", None)
        if declared is None:
            return
        for name in dir(cls):
            test = getattr(cls, name)
            if not name.startswith("test_") or test is None or hasattr(test, "__wrapped__"):
                continue  # no test, or the class that this one inherits from has decided it
            if all(getattr(declared, one) for one in getattr(test, "requires", ())):
                setattr(cls, name, _as_plain_function(test))
            else:
                # Not a promise of this backend: the test does not exist here.
                setattr(cls, name, None)


def _as_plain_function(test: Callable[[Any], Any]) -> Callable[[Any], None]:
    @functools.wraps(test)
    def plain(self: Subject) -> None:
        runner.run(lambda: self._run(test), virtual_time=self.virtual_time)

    return plain


class Overlap:
    """Who is inside, and whether ever more than fits: counted by the bodies themselves."""

    def __init__(self, capacity: int = 1) -> None:
        self.capacity = capacity
        self.inside = 0
        self.most = 0
        self.total = 0

    def enter(self, weight: int = 1) -> None:
        """Count somebody in."""
        self.inside += weight
        self.total += 1
        self.most = max(self.most, self.inside)
        assert self.inside <= self.capacity, f"{self.inside} inside, {self.capacity} fit"

    def leave(self, weight: int = 1) -> None:
        """Count somebody out."""
        self.inside -= weight


class Recorder:
    """A hook that keeps the events it is told."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    def kinds(self) -> list[str]:
        """Return the names of the events of leases, in order; not what was told of the store."""
        others = (StoreError, Reconnected)
        return [type(one).__name__ for one in self.events if not isinstance(one, others)]
