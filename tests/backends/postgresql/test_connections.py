"""A few connections serve all requests, each with a deadline, and never mix up replies."""

from __future__ import annotations

import os
import threading
import time

import pytest

from lockfast import BackendUnavailable, OutcomeUnknown
from lockfast.backends.postgresql import session_variables
from lockfast.backends.postgresql._sync.transport import PostgresqlTransport
from lockfast.backends.postgresql.address import address_of_url
from lockfast.backends.sql.steps import Query, QueryMany
from lockfast.runtime.clock import Clock
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.postgresql import PostgresqlServer
from lockfast_challenge.servers.proxy import Proxy

MINE = "application_name = 'lockfast'"


def sessions(server: PostgresqlServer, which: str = "true") -> int:
    """Return how many of our sessions the server lists."""
    statement = f"SELECT count(*) FROM pg_stat_activity WHERE {MINE} AND ({which})"
    return server.run(statement)[0][0]


@pytest.fixture
def numbers(server):
    """A table of two rows that no other test uses."""
    name = f"public.n{os.urandom(4).hex()}"
    server.run(f"CREATE TABLE {name} (k int PRIMARY KEY, v int NOT NULL)")
    server.run(f"INSERT INTO {name} VALUES (1, 0), (2, 0)")
    yield name
    server.run(f"DROP TABLE {name}")


def test_values_come_back_as_they_were_given(transport) -> None:
    values = ("naïve ' \" \\ 🔒", b"\0\xff", 0.1 + 0.2, 2**53 - 1, None, True)
    kinds = "$1::text, $2::bytea, $3::float8, $4::bigint, $5::text, $6::bool"

    assert transport.ask(f"SELECT {kinds}", *values) == [values]


def test_a_zero_byte_is_refused_and_does_not_end_the_text(transport) -> None:
    """Otherwise libpq would cut the text at the zero byte, and lock another name."""
    with pytest.raises(ValueError, match="encoding cannot hold this text"):
        transport.ask("SELECT $1::text", "a\0b")


def test_statements_that_go_together_are_done_together_or_not_at_all(
    transport, server, numbers
) -> None:
    with pytest.raises(Exception, match="division by zero"):
        transport.run_all([Query(f"UPDATE {numbers} SET v = 1"), Query("SELECT 1/0")])

    assert server.run(f"SELECT sum(v) FROM {numbers}") == [(0,)]


def test_one_statement_several_times_in_a_round_trip_is_prepared_once(transport) -> None:
    """A second preparation would be refused, and we would take that for a sign of a pooler."""
    assert transport.run_all([Query("SELECT $1::int + 1", (k,)) for k in range(3)]) == [
        [(1,)],
        [(2,)],
        [(3,)],
    ]

    [connection] = transport.inner._pool._idle
    assert connection.prepared


def test_after_an_error_the_connection_is_as_good_as_before(transport) -> None:
    [(before,)] = transport.ask("SELECT pg_backend_pid()")
    with pytest.raises(Exception, match="division by zero"):
        transport.ask("SELECT 1/0")

    assert transport.ask("SELECT pg_backend_pid()") == [(before,)]


def test_a_request_that_is_not_answered_in_time_ends_its_connection(transport) -> None:
    """A late reply must not be taken for the reply to the next request."""
    [(before,)] = transport.ask("SELECT pg_backend_pid()")
    with pytest.raises(OutcomeUnknown, match="did not answer: no answer in time"):
        transport.ask("SELECT 'late', pg_sleep(60)", within=0.2)

    [(after,)] = transport.ask("SELECT pg_backend_pid()")

    assert after != before


def test_four_connections_serve_any_number(transport, server) -> None:
    tasks = [
        transport.flavour.start(transport.ask, "SELECT pg_sleep(0.02), $1::int", i)
        for i in range(24)
    ]

    answers = [one.result()[0][1] for one in tasks]

    assert answers == list(range(24))
    assert transport.inner.connections == 4


def test_who_gets_no_connection_in_time_has_asked_nothing(wire_to, server) -> None:
    transport = wire_to(server.url(), most=1)
    transport.ask("SELECT 1")
    busy = transport.flavour.start(transport.ask, "SELECT pg_sleep(0.5)")
    eventually(lambda: sessions(server, "strpos(query, 'pg_sleep(0.5)') > 0 AND state = 'active'"))

    with pytest.raises(BackendUnavailable, match="no connection was free in time"):
        transport.ask("SELECT 1", within=0.05)

    busy.result()


def test_idle_connections_are_given_back(transport, server, monkeypatch) -> None:
    transport.ask("SELECT 1")
    assert transport.do("give_back") is not None
    monkeypatch.setattr(transport.inner._pool, "_idle_for", 0.0)

    assert transport.do("give_back") is None

    assert transport.inner.connections == 0
    assert transport.ask("SELECT 1") == [(1,)]


def test_a_session_that_the_server_ended_is_replaced(transport, server) -> None:
    """The loss is noticed before anything is sent, so no outcome is in doubt."""
    [(pid,)] = transport.ask("SELECT pg_backend_pid()")
    server.run("SELECT pg_terminate_backend(%s, 10000)", pid)
    if transport.flavour.name == "async":
        eventually(lambda: not transport.inner._pool._idle[0].is_open)

    assert transport.ask("SELECT pg_backend_pid()") != [(pid,)]


def test_the_session_that_replaces_an_ended_one_prepares_its_own_statements(
    transport, server, numbers
) -> None:
    """The handshake sends statements that transactions have prepared, such as BEGIN."""
    assert transport.transact(add_one(numbers)) == 2
    [connection] = transport.inner._pool._idle
    server.run("SELECT pg_terminate_backend(%s, 20000)", connection.libpq.backend_pid)
    if transport.flavour.name == "async":
        eventually(lambda: not connection.is_open)

    assert transport.transact(add_one(numbers)) == 4

    [replacement] = transport.inner._pool._idle
    assert replacement.prepared
    assert transport.inner.connections == 1


def test_a_session_that_is_ended_in_the_middle_leaves_us_in_doubt(transport, server) -> None:
    asked = transport.flavour.start(transport.ask, "SELECT 'doubt', pg_sleep(60)")
    eventually(lambda: sessions(server, "strpos(query, '''doubt''') > 0 AND state = 'active'"))
    server.terminate(f"{MINE} AND strpos(query, '''doubt''') > 0")

    with pytest.raises(OutcomeUnknown):
        asked.result()

    assert transport.ask("SELECT 1") == [(1,)]


def test_an_answer_that_is_lost_leaves_us_in_doubt(wire_to, server, numbers) -> None:
    with Proxy(server.port) as proxy:
        transport = wire_to(f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres")
        transport.ask("SELECT 1")
        proxy.cut_reply_to(b"SET v = 7", after=0)

        with pytest.raises(OutcomeUnknown):
            transport.ask(f"UPDATE {numbers} SET v = 7 WHERE k = 1")

    assert server.run(f"SELECT v FROM {numbers} WHERE k = 1") == [(7,)]


# -- transactions ----------------------------------------------------------------------


def add_one(table: str):
    """Return steps that read both rows, in order, and add one to each row."""

    def steps():
        [rows] = yield [Query(f"SELECT k, v FROM {table} ORDER BY k FOR UPDATE")]
        changed = [(k, v + 1) for k, v in rows]
        yield [QueryMany(f"UPDATE {table} SET v = $2::int WHERE k = $1", changed)]
        return sum(v for _, v in changed)

    return steps


def test_steps_are_one_transaction(transport, server, numbers) -> None:
    tasks = [transport.flavour.start(transport.transact, add_one(numbers)) for _ in range(20)]

    assert sorted(one.result() for one in tasks) == list(range(2, 42, 2))
    assert server.run(f"SELECT v FROM {numbers} ORDER BY k") == [(20,), (20,)]


def test_steps_that_fail_change_nothing_and_lock_nothing(transport, server, numbers) -> None:
    def steps():
        yield [Query(f"SELECT FROM {numbers} FOR UPDATE")]
        yield [QueryMany(f"UPDATE {numbers} SET v = $1::int", [(1,)])]
        raise LookupError

    with pytest.raises(LookupError):
        transport.transact(steps)

    assert server.run(f"SELECT v FROM {numbers} FOR UPDATE NOWAIT") == [(0,), (0,)]


def test_a_refusal_of_the_steps_costs_no_connection(transport, numbers) -> None:
    before = transport.ask("SELECT pg_backend_pid()")

    def steps():
        yield from add_one(numbers)()
        yield [Query("SELECT 1")]
        raise LookupError

    with pytest.raises(LookupError):
        transport.transact(steps)

    assert transport.ask("SELECT pg_backend_pid()") == before
    assert transport.transact(add_one(numbers)) == 2


@pytest.mark.parametrize("lost", ["lose_reply_to", "cut_reply_to", "reset_on"])
def test_a_transaction_that_is_cut_before_its_commit_did_nothing(
    wire_to, server, numbers, lost
) -> None:
    with Proxy(server.port) as proxy:
        transport = wire_to(f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres")
        transport.ask("SELECT 1")
        getattr(proxy, lost)(b"ORDER BY k FOR UPDATE")

        with pytest.raises(BackendUnavailable, match="nothing was done"):
            transport.transact(add_one(numbers), within=1.0)

        transport.close()
    server.run(f"SELECT FROM {numbers} FOR UPDATE")
    assert server.run(f"SELECT sum(v) FROM {numbers}") == [(0,)]


def test_a_row_that_stays_locked_is_waited_for_until_the_deadline(
    transport, server, numbers
) -> None:
    """The client waits beyond the server's lock timeout; after the deadline, nothing was done."""
    waits = f"wait_event_type = 'Lock' AND strpos(query, '{numbers}') > 0"
    with server.connect() as other, other.transaction():
        other.execute(f"SELECT FROM {numbers} FOR UPDATE")
        waiting = transport.flavour.start(transport.transact, add_one(numbers))
        given_up = transport.flavour.start(transport.transact, add_one(numbers), within=0.5)
        with pytest.raises(BackendUnavailable):
            given_up.result()
        with pytest.raises(BackendUnavailable):
            transport.transact(add_one(numbers), within=session_variables.LOCK_WAIT_SECONDS + 0.2)
        eventually(lambda: sessions(server, waits) <= 1, what="who gave up waits no longer")

    assert waiting.result() == 2


def test_what_only_writes_takes_one_round_trip(transport, numbers, server) -> None:
    """The beginning of the transaction, its writes and its commit are sent together."""

    def steps():
        yield [QueryMany(f"UPDATE {numbers} SET v = v + $1::int", [(1,), (2,)])]
        yield [QueryMany(f"UPDATE {numbers} SET v = v * $1::int", [(10,)])]

    transport.transact(steps)

    assert server.run(f"SELECT v FROM {numbers}") == [(30,), (30,)]


def test_the_victim_of_a_deadlock_goes_again(transport, server, numbers) -> None:
    """The steps and another session lock two rows in opposite order; the server ends the steps."""
    both = threading.Barrier(2, timeout=20)
    runs = []

    def steps():
        runs.append(1)
        yield [Query(f"SELECT FROM {numbers} WHERE k = 1 FOR UPDATE")]
        if len(runs) == 1:
            both.wait()
        yield [Query(f"SELECT FROM {numbers} WHERE k = 2 FOR UPDATE")]
        return "through"

    asked = transport.flavour.start(transport.transact, steps)
    with server.connect() as other, other.transaction():
        other.execute("SET LOCAL deadlock_timeout = '60s'")  # so that this session is no victim
        other.execute(f"SELECT FROM {numbers} WHERE k = 2 FOR UPDATE")
        both.wait()
        other.execute(f"SELECT FROM {numbers} WHERE k = 1 FOR UPDATE")

    assert asked.result() == "through"
    assert len(runs) >= 2  # the next run may overtake the other session, and deadlock again


def test_a_default_isolation_of_another_kind_does_no_harm(wire_to, server, numbers) -> None:
    transport = wire_to(server.url(), options="-c default_transaction_isolation=serializable")
    tasks = [transport.flavour.start(transport.transact, add_one(numbers)) for _ in range(10)]

    assert sorted(one.result() for one in tasks) == list(range(2, 22, 2))


def test_a_client_that_stands_still_in_its_transaction_closes_the_name_for_seconds(
    wire_to, server, numbers
) -> None:
    """Otherwise a client on a sleeping machine would keep the name closed until it wakes up."""
    with Proxy(server.port) as proxy:
        transport = wire_to(f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres")
        transport.ask("SELECT 1")
        met = proxy.hold_requests(b"COMMIT")
        asked = transport.flavour.start(transport.transact, add_one(numbers), within=8.0)
        assert met.wait(20)
        began = time.monotonic()

        server.run(f"SELECT FROM {numbers} FOR UPDATE")

        assert time.monotonic() - began < 15
        with pytest.raises((OutcomeUnknown, BackendUnavailable)):
            asked.result()
    assert server.run(f"SELECT sum(v) FROM {numbers}") == [(0,)]


# -- failures of the server ------------------------------------------------------------


@pytest.fixture
def own_server():
    with PostgresqlServer() as one:
        yield one


def test_a_server_that_comes_back_is_used_again(wire_to, own_server) -> None:
    transport = wire_to(own_server.url())
    transport.ask("SELECT 1")
    own_server.kill()
    with pytest.raises((BackendUnavailable, OutcomeUnknown)):
        transport.ask("SELECT 1")
    with pytest.raises(BackendUnavailable, match="nothing listens at postgresql://here"):
        transport.ask("SELECT 1")

    own_server.start()

    assert transport.ask("SELECT 1") == [(1,)]


def test_a_frozen_server_costs_a_request_its_time_and_no_more(wire_to, own_server) -> None:
    transport = wire_to(own_server.url())
    transport.ask("SELECT 1")
    own_server.pause()
    try:
        with pytest.raises(OutcomeUnknown):
            transport.ask("SELECT 1", within=0.3)
        with pytest.raises(BackendUnavailable, match="no connection in time"):
            transport.ask("SELECT 1", within=0.3)
    finally:
        own_server.resume()

    assert transport.ask("SELECT 1") == [(1,)]


def test_the_second_host_is_tried_when_the_first_is_silent(wire_to, server, own_server) -> None:
    own_server.pause()
    try:
        url = f"postgresql://postgres@127.0.0.1:{own_server.port},127.0.0.1:{server.port}/postgres"
        transport = wire_to(url)

        assert transport.ask("SELECT inet_server_port()", within=4.0) == [(server.port,)]
    finally:
        own_server.resume()


def test_a_forked_child_leaves_the_connections_of_its_parent_alone(server) -> None:
    clock = Clock()
    address = address_of_url(server.url(), where="postgresql://here", options={})
    transport = PostgresqlTransport(address, clock=clock)
    statement = Query("SELECT pg_backend_pid()")
    before = transport.ask(statement, deadline=clock.now() + 20)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            transport.after_fork_in_child()
            own = transport.ask(statement, deadline=clock.now() + 20)
            transport.close()
            code = 0 if own != before else 2
        finally:
            os._exit(code)

    assert os.waitpid(child, 0)[1] == 0
    assert transport.ask(statement, deadline=clock.now() + 20) == before
    transport.close()
