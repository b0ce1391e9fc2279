"""One session asks for all claims of a client: nobody sleeps because another of them asked."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from holdfast import Claim, ConfigurationError, Grant, Held
from holdfast.backends.postgresql.advisory import PostgresqlStatements
from holdfast.backends.sql._sync.advisory import AdvisoryBackend
from holdfast.challenge.eventually import eventually
from holdfast.runtime.clock import Clock

PATIENCE = 20.0
OWNER = '{"host": "h", "pid": 1, "label": "", "context": ""}'


class Server:
    """Answers no to who asks for a lock, as somebody elsewhere has it, when it is let to."""

    number = 7
    is_sound = True

    def __init__(self) -> None:
        self.is_asked = threading.Event()
        self.may_answer = threading.Event()

    def ask(self, request: Any, *, deadline: float) -> list[tuple[object, int]]:
        del deadline
        if "pg_try_advisory_lock" in request.statement:
            self.is_asked.set()
            assert self.may_answer.wait(PATIENCE)
        return [] if "pg_locks" in request.statement else [(False, self.number)]

    def cut(self) -> None:
        self.may_answer.set()

    def close(self) -> None:
        """Nothing is open."""


class Backend(AdvisoryBackend):
    def __init__(self, server: Server) -> None:
        statements = PostgresqlStatements(namespace="in turn")
        super().__init__(statements, location="nowhere", clock=Clock())
        self._server = server

    def _connect(self, ttl: float, deadline: float) -> Any:
        del ttl, deadline
        return self._server


def claim(number: int, *, queues: bool) -> Claim:
    return Claim(f"{number:032x}", "door", "client", OWNER, 1, 1, 60.0, queues=queues)


def test_who_waits_asks_again_when_one_that_only_tried_was_refused():
    """Else it would sleep on although the name is free: nobody else of its client asks."""
    server, clock = Server(), Clock()
    backend, deadline = Backend(server), clock.now() + 2 * PATIENCE
    waiting = claim(1, queues=True)
    with ThreadPoolExecutor(1) as pool:
        trying = pool.submit(backend.try_acquire, claim(2, queues=False), deadline=deadline)
        assert server.is_asked.wait(PATIENCE)
        assert isinstance(backend.try_acquire(waiting, deadline=deadline), Held)

        server.may_answer.set()
        assert not isinstance(trying.result(PATIENCE), Grant)

    until = clock.now() + PATIENCE
    backend.wait(waiting, deadline=until)
    assert clock.now() < until
    backend.withdraw(waiting, deadline=deadline, tombstone=False)
    backend.close()


class SlowToLast(Server):
    """Does as told by whoever wants another ttl, and answers when it is let to."""

    def __init__(self) -> None:
        super().__init__()
        self.lasts = ""

    def ask(self, request: Any, *, deadline: float) -> list[tuple[object, int]]:
        del deadline
        if "idle_session_timeout" in request.statement:
            self.is_asked.set()
            assert self.may_answer.wait(PATIENCE)
            [self.lasts] = request.values
        return [(True, self.number)]


def test_a_lease_is_never_trusted_for_longer_than_its_session_lasts():
    """One claim has the session shortened while another asks that took it as it was."""
    server, clock = SlowToLast(), Clock()
    backend, deadline = Backend(server), clock.now() + 2 * PATIENCE
    first = backend.try_acquire(claim(1, queues=True), deadline=deadline)
    assert isinstance(first, Grant)
    backend.release(first, deadline=deadline, tombstone=False)
    shorter = replace(claim(2, queues=True), name="another", ttl=2.0)
    with ThreadPoolExecutor(2) as pool:
        shortening = pool.submit(backend.try_acquire, shorter, deadline=deadline)
        assert server.is_asked.wait(PATIENCE)
        asking = pool.submit(backend.try_acquire, claim(3, queues=True), deadline=deadline)
        session = backend._session
        eventually(lambda: session._requests or asking.done(), what="it asks")
        server.may_answer.set()
        granted = [asking.result(PATIENCE), shortening.result(PATIENCE)]

    assert server.lasts == "2000"
    assert [one.ttl for one in granted if isinstance(one, Grant)] == [2.0, 2.0]
    assert session.ttl == 2.0
    backend.close()


def test_a_session_that_carries_something_meanwhile_lasts_as_long_as_it_did():
    """Whoever carries it trusts it for so long."""
    server, clock = SlowToLast(), Clock()
    server.may_answer.set()
    backend, deadline = Backend(server), clock.now() + 2 * PATIENCE
    carried = backend.try_acquire(claim(1, queues=True), deadline=deadline)
    session = backend._session

    # It was looked at before that claim stood there.
    with pytest.raises(ConfigurationError, match="use another client"):
        session.last_for(2.0, deadline=deadline)

    assert server.lasts == ""
    assert isinstance(carried, Grant)
    assert carried.ttl == session.ttl == 60.0
    backend.close()
