"""The clients that a fault hits: a holder, a waiter behind it, and an observer."""

from __future__ import annotations

import os
from typing import Any, Protocol

import pytest
from both_flavours import Flavour, number_waiting
from diary import Diary

from lockfast import BackendUnavailable, OutcomeUnknown
from lockfast_challenge.processes import EVENTUALLY_SECONDS, eventually

BEGINNINGS = 8

PATIENT = 150.0
"""Timeout of a waiter, in seconds: a fault and its end may take a minute or two on a busy machine.
"""


class Reachable(Protocol):
    """A server, or several that form one store."""

    @property
    def url(self) -> str:
        """The URL of the store."""


def new_name() -> str:
    """Return a name for a single test: the servers are shared."""
    return f"door-{os.urandom(4).hex()}"


class Scene:
    """The holder and the waiter of one flavour; a fault hits both flavours' scenes at once."""

    def __init__(self, flavour: Flavour) -> None:
        self.flavour = flavour
        self.diary = Diary()
        self.name = new_name()

    def open(self, url: str, **options: Any) -> Any:
        """Return a client for the holder or the waiter."""
        return self.flavour.locks(url, **options)

    def hold(self, url: str, **options: Any) -> None:
        """Acquire the lock, and record its events."""
        self.locks = self.open(url, on_event=self.diary, **options)
        self.lock = self.locks.lock(self.name)
        self.lease = self.lock.acquire()

    def wait_behind(self, url: str, **options: Any) -> None:
        """Make another client wait for the lock; return once the client knows that it is in line.

        The claim's node exists before the client has the reply and watches the claim in front of
        it.
        """
        self.start_waiting(url, **options)
        watcher = self.flavour.locks(url)
        eventually(
            lambda: watcher.inspect(self.name).line,
            what="it waits",
            despite=(BackendUnavailable, OutcomeUnknown),
        )
        eventually(lambda: number_waiting(self.waiting_client), what="it was told to wait")

    def begin(self, url: str, *, ttl: float, behind: str, renewals: int = 0) -> None:
        """Hold, make another client wait at `behind`, and wait for this many renewals.

        If the machine stalls, a short lease may end before the renewals. If so, start over.
        """
        for _ in range(BEGINNINGS):
            self.diary, self.name = Diary(), new_name()
            self.hold(url, ttl=ttl)
            self.start_waiting(behind, ttl=60)
            watcher = self.flavour.locks(behind)

            def is_ready(watcher: Any = watcher) -> bool:
                is_in_line = watcher.inspect(self.name).line and number_waiting(self.waiting_client)
                return bool(is_in_line) and self.diary.count("Renewed") >= renewals

            eventually(
                lambda: not self.lease.is_trusted or is_ready(),
                what="it waits",
                despite=(BackendUnavailable, OutcomeUnknown),
            )
            if self.lease.is_trusted:
                return
        pytest.fail(f"its lease ended {BEGINNINGS} times before anything struck")

    def start_waiting(self, url: str, **options: Any) -> None:
        """Make another client acquire the lock."""
        self.waiting_client = self.open(url, **options)
        lock = self.waiting_client.lock(self.name)
        self.waiter = self.flavour.start(self._timed_acquire, lock)

    def _timed_acquire(self, lock: Any) -> tuple[Any, float]:
        return lock.acquire(timeout=PATIENT), self.flavour.clock.now()

    def waiting(self) -> int:
        """Return how many claims are in line, as the holder's client sees it."""
        return len(self.locks.inspect(self.name).line)

    def renews(self) -> bool:
        """Return whether the store confirms the lease now."""
        try:
            self.lease.renew()
        except (BackendUnavailable, OutcomeUnknown):
            return False
        return True

    def is_passed_on(self) -> bool:
        """Release the lease to the waiter; return whether the lease was never lost before."""
        self.lease.check()
        assert not self.waiter.done(), f"it did not wait: {self.waiter.result()}"
        self.lease.release()
        successor, _ = self.waiter.result(EVENTUALLY_SECONDS)
        assert successor.token > self.lease.token
        return self.diary.count("Lost") == 0


class WatchedName:
    """A name, seen over a connection that does not fail."""

    def __init__(self, flavour: Flavour, server: Reachable, name: str) -> None:
        self.name = name
        self._flavour = flavour
        self._server = server
        self._watcher = flavour.locks(server.url)

    def line(self) -> tuple[list[int | None], int]:
        """Return the holders' tokens, and the number of waiters.

        A test may have set a short request timeout for all clients, and a busy machine is slow to
        reply.
        """
        seen: list[tuple[list[int | None], int]] = []
        eventually(
            lambda: not seen.append(seen_of(self._watcher, self.name)),
            what="it is seen",
            despite=(BackendUnavailable, OutcomeUnknown),
        )
        return seen[0]

    def until(self, tokens: list[int | None], waiting: int) -> None:
        """Wait until these tokens hold the name, and this many claims wait."""
        eventually(
            lambda: self.line() == (tokens, waiting), what=f"held by {tokens}, {waiting} wait"
        )

    def elsewhere(self, **options: Any) -> Any:
        """Return the lock in a separate client."""
        return self._flavour.locks(self._server.url, **options).lock(self.name)


def seen_of(watcher: Any, name: str) -> tuple[list[int | None], int]:
    """Return how a client sees a name: the holders' tokens, and the number of waiters."""
    found = watcher.inspect(name)
    return [one.token for one in found.holders], len(found.line)
