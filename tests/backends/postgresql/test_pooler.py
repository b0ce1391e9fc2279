"""Behind PgBouncer: in transaction mode each transaction may be on another connection."""

from __future__ import annotations

import pytest
from servers.pgbouncer import PgBouncer
from servers.postgresql import shared_server

from lockfast.backends.sql.steps import Query
from lockfast.backends.waiting import NotificationsUnavailable


@pytest.fixture(scope="module")
def pooler():
    with PgBouncer(shared_server(), size=3) as one:
        yield one


def test_a_pooler_is_seen(wire_to, pooler, transport) -> None:
    pooled = wire_to(pooler.url())
    pooled.ask("SELECT 1")
    transport.ask("SELECT 1")

    assert pooled.inner.greeting.is_pooled
    assert not transport.inner.greeting.is_pooled


def test_more_clients_than_connections_are_served(wire_to, pooler) -> None:
    """No transaction needs state that an earlier transaction left on a connection."""
    transports = [wire_to(pooler.url()) for _ in range(3)]
    tasks = [
        one.flavour.start(one.ask, "SELECT $1::int, pg_sleep(0.001)", i)
        for i in range(40)
        for one in transports
    ]

    assert [one.result()[0][0] for one in tasks] == [i for i in range(40) for _ in transports]


def test_a_transaction_stays_on_one_connection(wire_to, pooler) -> None:
    transport = wire_to(pooler.url())

    def steps():
        [[first]] = yield [Query("SELECT pg_backend_pid(), txid_current()")]
        [[second]] = yield [Query("SELECT pg_backend_pid(), txid_current()")]
        return first == second

    tasks = [transport.flavour.start(transport.transact, steps) for _ in range(20)]

    assert all(one.result() for one in tasks)


def test_prepared_statements_that_a_hidden_pooler_forgets_are_sent_anew(wire_to, pooler) -> None:
    """A pooler that announces the server's own process id is not recognised as a pooler."""
    transport = wire_to(pooler.url(), most=1)
    transport.ask("SELECT 1")
    transport.inner._pool._idle[0].prepared = set()
    others = wire_to(pooler.url())
    tasks = []
    for i in range(30):
        tasks += [others.flavour.start(others.ask, "SELECT pg_sleep(0.002)") for _ in range(4)]
        tasks.append(transport.flavour.start(transport.ask, "SELECT $1::int", i))

    for one in tasks:
        one.result()


def test_notifications_do_not_come_through(wire_to, pooler) -> None:
    transport = wire_to(pooler.url())

    with pytest.raises(
        NotificationsUnavailable, match="pooler in transaction mode; waiting claims ask"
    ):
        transport.subscribe("lockfast_test", print)


def test_in_session_mode_they_do(wire_to) -> None:
    with PgBouncer(shared_server(), mode="session") as pooler:
        transport = wire_to(pooler.url())
        heard: list[str] = []
        subscription = transport.subscribe("lockfast_test", heard.append)
        transport.ask("SELECT pg_notify('lockfast_test', 'ring')")
        until = transport.flavour.clock.now() + 10
        while not heard and transport.flavour.clock.now() < until:
            transport.flavour.call(subscription.listen, until=transport.flavour.clock.now() + 0.05)
        transport.flavour.call(subscription.close)

    assert heard == ["ring"]
