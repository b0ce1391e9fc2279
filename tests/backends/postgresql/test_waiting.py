"""What waiting costs the server, with notifications and without them."""

from __future__ import annotations

import logging
import re
import time
from dataclasses import replace

import pytest
from both_flavours import number_waiting
from fault_scene import new_name
from servers.pgbouncer import PgBouncer

from lockfast import LockError
from lockfast.backends.postgresql import connection_aio as subscription_of_tasks
from lockfast.backends.postgresql import connection_threads as subscription_of_threads
from lockfast.backends.sql._async.waiting import AsyncSqlWaiting
from lockfast.backends.sql._sync.waiting import SqlWaiting
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.postgresql import PostgresqlServer

LONG = 11.0
ENDLESS = 600.0


@pytest.fixture(scope="module")
def writing_down():
    """A server that logs every statement with the user who sent it."""
    settings = {"log_statement": "all", "log_line_prefix": "%u "}
    with PostgresqlServer(settings=settings) as one:
        one.run("CREATE ROLE waiter LOGIN SUPERUSER")
        yield one


def asked(server: PostgresqlServer) -> int:
    """Return how many statements a user named `waiter` has sent so far."""
    text = (server.directory / "log").read_text(errors="replace")
    return len(re.findall(r"^waiter LOG:  (?:statement|execute)", text, re.MULTILINE))


def test_a_waiting_client_looks_once_in_five_seconds(flavour, writing_down):
    """A waiting client asks once in five seconds, however many claims and names it waits for."""
    names = [new_name() for _ in range(3)]
    holders = flavour.locks(writing_down.url())
    held = [holders.lock(name).acquire() for name in names]
    locks = flavour.locks(writing_down.url(user="waiter"))
    waiting = [flavour.start(locks.lock(name).acquire, timeout=60) for name in names * 2]
    eventually(lambda: number_waiting(locks) == len(waiting))
    eventually(lambda: not grows(writing_down))

    before = asked(writing_down)
    assert before > len(waiting)
    time.sleep(LONG)

    assert asked(writing_down) - before <= LONG // 5 + 1
    assert all(lease.is_trusted for lease in held)
    assert not any(one.done() for one in waiting)


def grows(server: PostgresqlServer) -> bool:
    """Return whether statements still arrive: all claims ask once more when listening begins."""
    before = asked(server)
    time.sleep(0.5)
    return asked(server) > before


def test_behind_a_pooler_it_is_said_once_that_nobody_is_woken(flavour, server, outliving, caplog):
    """The warning is logged once, and the lock is still handed over each time."""
    pooler = outliving.enter_context(PgBouncer(server))
    holders, locks = flavour.locks(pooler.url()), flavour.locks(pooler.url())
    with caplog.at_level(logging.WARNING, logger="lockfast"):
        for name in (new_name(), new_name()):
            lease = holders.lock(name).acquire()
            waiter = flavour.start(locks.lock(name).acquire, timeout=30)
            eventually(lambda name=name: holders.inspect(name).line)
            eventually(lambda: "notifications do not come through" in caplog.text)
            lease.release()
            assert waiter.result(20).token > lease.token

    assert caplog.text.count("notifications do not come through") == 1


def test_closing_does_not_wait_for_a_proof_that_does_not_come(
    flavour, server, outliving, monkeypatch
):
    """Behind a pooler the proof of a subscription never arrives, and closing must not await it."""
    for module in (subscription_of_tasks, subscription_of_threads):
        monkeypatch.setattr(module, "PROOF_TIMEOUT_SECONDS", ENDLESS)
    for policy in (AsyncSqlWaiting, SqlWaiting):
        monkeypatch.setattr(policy, "timing", replace(policy.timing, subscribe_timeout=ENDLESS))
    pooler = outliving.enter_context(PgBouncer(server))
    name = new_name()
    flavour.locks(pooler.url()).lock(name).acquire()
    locks = flavour.locks(pooler.url())
    waiter = flavour.start(locks.lock(name).acquire, timeout=ENDLESS)
    inbox = getattr(locks, "_inner", locks)._client.backend._inbox
    eventually(lambda: inbox.receivers[0].opening is not None, what="it has begun to listen")

    flavour.start(locks.close if flavour.name == "sync" else locks.aclose).result(30)

    with pytest.raises(LockError):
        waiter.result(30)
