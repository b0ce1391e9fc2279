# Generated from src/lockfast/testing/_async/contract/subject.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The subject of the law tests: each test has a store of its own, and clients of that store."""

from __future__ import annotations

import functools
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import pytest

from lockfast.client._sync.locks import Locks
from lockfast.errors import LockError
from lockfast.events import Reconnected, StoreError
from lockfast.model import Capabilities, Claim, Grant, Owner
from lockfast.testing import threads as runner
from lockfast.testing._sync.faulty import FaultyBackend

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockfast.backends._sync.backend import Backend
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
    """The backend under test; a subclass defines how to open the backend."""

    capabilities: ClassVar[Capabilities]
    ttl: ClassVar[float] = 0.6
    """Ttl for tests that wait for a lease to expire, in seconds."""

    long_ttl: ClassVar[float] = 30.0
    """Ttl for all other tests, in seconds; long enough not to run out during a test on a slow
    machine.
    """

    slack: ClassVar[float] = 1.0
    """How late something may happen on a busy machine, in seconds."""

    patience: ClassVar[float] = 30.0
    """Timeout in seconds for tests that are not about time; only a hang takes longer."""

    request_timeout: ClassVar[float] = 10.0
    """Request timeout in seconds for clients whose timeout is not under test; a store may stall."""

    late: ClassVar[float] = 0.0
    """How long after the ttl, in seconds, the store may take to end the holds of a silent client.
    The store may also take that long to open a name after its min_hold.
    """

    virtual_time: ClassVar[bool] = False
    """Whether asyncio tests may run in virtual time, because the store uses the client's clock."""

    clock: Clock

    def set_up(self) -> None:
        """Make a fresh store for one test."""

    def tear_down(self) -> None:
        """Remove the store."""

    def make_backend(self, clock: Clock) -> Backend:
        """Return a backend for a new client of this test's store."""
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
        """Return a backend without a client, so that nothing renews or withdraws its claims."""
        backend = self.make_backend(self.clock)
        self._to_close.append(backend)
        return backend

    def crash(self, backend: Backend) -> None:
        """Make the client of a raw backend fall silent, as if its process had been killed.

        If claims end by their ttl, a raw backend is silent anyway, but if claims belong to a
        session, the session must be abandoned.
        """
        if self.capabilities.ends_by == "session":
            backend.disown(f"raw{id(self):x}", deadline=self.soon())

    def pass_ttl(self, ttl: float | None = None) -> None:
        """Wait until the store has dropped everything that a silent holder had."""
        self.pass_time((ttl or self.ttl) * 1.05 + self.late)

    def claim(self, name: str, **fields: Any) -> Claim:
        """Return a claim to use with the raw backend."""
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
        """Let time pass, for a test that is about time."""
        deadline = self.clock.now() + seconds
        runner.until(lambda: self.clock.now() >= deadline, clock=self.clock, within=1e9)

    def until(self, condition: Callable[[], object], *, within: float | None = None) -> None:
        """Wait until the condition is true; fail if that takes too long."""
        runner.until(
            condition, clock=self.clock, within=self.patience if within is None else within
        )

    def until_waiting(self, locks: Locks, name: str, number: int = 1) -> None:
        """Wait until this many claims are in the line."""
        deadline = self.clock.now() + self.patience
        while len(locks.inspect(name).line) < number:
            assert self.clock.now() < deadline, f"nobody joined the line of {name!r}"
            self.pass_time(0.002)

    def assert_free(self, name: str, *, within: float = 10.0) -> None:
        """Assert that nobody holds the name or waits for it, now or within this time."""
        locks = self.locks()
        deadline = self.clock.now() + within
        while True:
            # A reply that takes long may tell of a moment before the deadline.
            asked_at = self.clock.now()
            seen = locks.inspect(name)
            if not seen.holders and not seen.line:
                return
            assert asked_at < deadline, f"left behind: {seen}"
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
                continue  # not a test, or already selected for a parent class
            if all(getattr(declared, one) for one in getattr(test, "requires", ())):
                setattr(cls, name, _as_plain_function(test))
            else:
                # This backend does not promise what the test checks, so remove the test.
                setattr(cls, name, None)


def _as_plain_function(test: Callable[[Any], Any]) -> Callable[[Any], None]:
    @functools.wraps(test)
    def plain(self: Subject) -> None:
        runner.run(lambda: self._run(test), virtual_time=self.virtual_time)

    return plain


class Overlap:
    """Counts the weights of all holders, and checks that the sum never exceeds the capacity."""

    def __init__(self, capacity: int = 1) -> None:
        self.capacity = capacity
        self.inside = 0
        self.most = 0
        self.total = 0

    def enter(self, weight: int = 1) -> None:
        """Count a holder that enters."""
        self.inside += weight
        self.total += 1
        self.most = max(self.most, self.inside)
        assert self.inside <= self.capacity, f"{self.inside} inside, {self.capacity} fit"

    def leave(self, weight: int = 1) -> None:
        """Stop counting a holder that leaves."""
        self.inside -= weight


class Recorder:
    """A hook that records the events it receives."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    def kinds(self) -> list[str]:
        """Return the class names of the lease events, in order, without events about the store."""
        others = (StoreError, Reconnected)
        return [type(one).__name__ for one in self.events if not isinstance(one, others)]


# Repeats the tests of laws about time, because a test that fails while the machine stalls proves
# nothing.

TRIALS = 5
"""Maximum number of attempts per test. Each attempt has twice the ttl of the previous attempt, so
the last attempt tolerates a machine that stalls for seconds.
"""

TRIAL_PAUSE_SECONDS = 0.02
"""Pause between two requests of the stall witness, in seconds."""


class Trials(Subject):
    """A subject that can repeat a test if the machine stalled during it."""

    def undisturbed(
        self, trial: Callable[[str, float], Any], *, ttl: float, tolerance: float | None = None
    ) -> None:
        """Run the trial until it passes, or until it fails without a stall.

        If the machine or the store's disk stalls for longer than a short ttl, leases rightly end.
        So during the trial, a witness keeps sending requests to the store. If a request was delayed
        for longer than `tolerance` (by default a sixth of the ttl, because several delays may add
        up), a failure of the trial proves nothing about the store. The trial is then repeated, with
        another name and twice the ttl. If the witness got its replies in time, a failure is raised
        at once.
        """
        for number in range(TRIALS):
            is_last = number == TRIALS - 1
            with StallWitness(self) as witness:
                try:
                    trial(f"door {number}", ttl)
                except (Exception, pytest.fail.Exception):
                    if is_last or witness.longest_wait <= (tolerance or ttl / 6):
                        raise
                else:
                    return
            ttl *= 2


class StallWitness:
    """Sends requests to the store while a block runs, and measures how long they are delayed.

    The witness reads and renews a lease of its own in turn, because a stalled disk delays only
    writes.
    """

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._backend = subject.raw()
        # The witness has a client id of its own, because a store may refuse two backends of one
        # client.
        name = f"witness{id(self):x}"
        self._claim = subject.claim(name, client=name, ttl=subject.long_ttl)
        self._grant: Grant | None = None
        self._reads = False
        self._longest = 0.0
        self._sent_at = 0.0
        self._is_over = False

    @property
    def longest_wait(self) -> float:
        """The longest delay of a request beyond the normal pause, including one under way."""
        return max(self._longest, self._subject.clock.now() - self._sent_at - TRIAL_PAUSE_SECONDS)

    def __enter__(self) -> Self:
        self._send_request()  # connect first, which may take a while on any machine
        self._sent_at = self._subject.clock.now()
        self._running = runner.start(self._keep_asking)
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self._running.result()
        if self._grant is not None:
            with suppress(LockError):
                self._backend.release(self._grant, deadline=self._subject.soon(), tombstone=False)

    def _keep_asking(self) -> None:
        while not self._is_over:
            self._send_request()
            self._subject.pass_time(TRIAL_PAUSE_SECONDS)
            self._longest = self.longest_wait
            self._sent_at = self._subject.clock.now()

    def _send_request(self) -> None:
        backend, deadline = self._backend, self._subject.soon()
        self._reads = not self._reads
        with suppress(LockError):  # only the delay matters, and it was measured
            if self._reads:
                backend.inspect(self._claim.name, deadline=deadline)
            elif self._grant is not None:
                backend.renew([self._grant], deadline=deadline)
            else:
                answer = backend.try_acquire(self._claim, deadline=deadline)
                self._grant = answer if isinstance(answer, Grant) else None
