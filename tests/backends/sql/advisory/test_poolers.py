"""PgBouncer: in session mode a client has a session to itself, in transaction mode it has not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from both_flavours import Flavour
from servers.pgbouncer import PgBouncer
from servers.postgresql import shared_server

from holdfast import ConfigurationError
from holdfast.backends.postgresql.greeting import Greeting


@pytest.fixture(scope="module")
def transactions() -> Iterator[PgBouncer]:
    with PgBouncer(shared_server(), size=3) as one:
        yield one


@pytest.fixture(scope="module")
def sessions() -> Iterator[PgBouncer]:
    with PgBouncer(shared_server(), mode="session", size=20) as one:
        yield one


def connected(pooler: PgBouncer) -> psycopg.Connection[Any]:
    """Return a plain connection by way of it."""
    return psycopg.connect(pooler.url(), autocommit=True, prepare_threshold=None)


def opened(flavour: Flavour, pooler: PgBouncer, **options: Any) -> Any:
    return flavour.locks(pooler.url(), mode="advisory", request_timeout=10.0, **options)


def test_transaction_mode_is_refused_before_anything_is_changed(flavour, transactions, name):
    locks = opened(flavour, transactions)

    with pytest.raises(ConfigurationError, match=r"transaction mode.* pooler in session mode"):
        locks.lock(name).acquire(timeout=5)

    # What we would have set for our session reaches no stranger's.
    settings = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
    assert shared_server().run(settings) == [(0,)]
    with connected(transactions) as other:
        assert other.execute("SHOW idle_session_timeout").fetchone() == ("0",)


def test_a_transaction_pooler_that_hides_takes_no_lock_it_could_lose(
    flavour, transactions, name, monkeypatch
):
    """It announces the server's own number, and looks like a server; requests show it."""
    monkeypatch.setattr(Greeting, "is_pooled", False)
    locks = opened(flavour, transactions)
    lease = locks.lock(name).acquire()
    number = getattr(locks, "_inner", locks)._client.backend._session.number
    with connected(transactions) as other, other.transaction():
        # Given to the next client at once, and kept by it.
        assert other.execute("SELECT pg_backend_pid()").fetchone() == (number,)

        with pytest.raises(ConfigurationError, match="another session of the server answers"):
            locks.lock(f"{name} 2").acquire(timeout=5)

        assert lease.lost.wait(20)
        # What was set for our session, and locked by it, has reached the pooler's.
        other.execute("SELECT pg_advisory_unlock_all()")
        other.execute("RESET ALL")


def test_session_mode_serves(flavour, sessions, name):
    first, second = opened(flavour, sessions), opened(flavour, sessions)
    lease = first.lock(name).acquire()

    assert second.lock(name).try_acquire() is None
    waiter = flavour.start(second.lock(name).acquire, timeout=20)
    lease.check()
    lease.release()

    waiter.result(20).release()


def test_what_was_set_for_a_session_is_gone_from_the_pooler_after_it(flavour, sessions, name):
    """It says DISCARD ALL by itself, so that the next client of the pool finds nothing of ours."""
    locks = opened(flavour, sessions, ttl=7.0)
    locks.lock(name).acquire()
    (locks.close if flavour.name == "sync" else locks.aclose)()

    with connected(sessions) as other:
        assert other.execute("SHOW idle_session_timeout").fetchone() == ("0",)
    assert opened(flavour, sessions).lock(name).acquire(timeout=10).is_trusted
