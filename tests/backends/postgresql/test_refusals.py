"""Errors are sentences that an operator can act on, and show no password."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from lockfast import BackendUnavailable, ConfigurationError, Locks, OutcomeUnknown
from lockfast.backends.postgresql.address import address_of_url
from lockfast.backends.postgresql.schema import PostgresqlTables
from lockfast.runtime.clock import Clock
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.postgresql import PostgresqlServer, StandbyServer

SECRET = "hunter2-and-more"
PATIENCE = 20.0
"""The deadline that a transport of these tests has by default, in seconds."""
ACCESS = """\
local all all trust
host replication postgres 127.0.0.1/32 trust
host all postgres 127.0.0.1/32 trust
host all nobody 127.0.0.1/32 reject
host all all 127.0.0.1/32 scram-sha-256
"""


@pytest.fixture(scope="module")
def guarded():
    """A server that asks all users but its owner for a password, and takes few connections."""
    settings = {"max_connections": "12", "superuser_reserved_connections": "5"}
    with PostgresqlServer(access=ACCESS, settings=settings) as one:
        one.run(f"CREATE ROLE app LOGIN PASSWORD '{SECRET}'")
        one.run("CREATE ROLE nobody LOGIN")
        yield one


@pytest.fixture(scope="module")
def standby(guarded):
    """A standby of the guarded server, which is not promoted."""
    with StandbyServer(guarded) as one:
        yield one


def told(error: BaseException | None) -> str:
    """Return all that a traceback would show of an error and its causes."""
    found = []
    while error is not None:
        found.append(f"{error!r} {error}")
        error = error.__cause__ or error.__context__
    return "\n".join(found)


@pytest.mark.parametrize(
    ("login", "database", "sentence"),
    [
        (("app", "wrong-" + SECRET), "postgres", "does not know this user and password"),
        (("app", ""), "postgres", "does not know this user and password"),
        (("missing", SECRET), "postgres", "does not know this user and password"),
        (("nobody", SECRET), "postgres", "does not let this user in"),
        (("app", SECRET), "missing", "there is no such database"),
    ],
)
def test_who_may_not_come_in_is_told_why(wire_to, guarded, login, database, sentence) -> None:
    user, password = login
    transport = wire_to(guarded.url(database, user=user, password=password))

    with pytest.raises(ConfigurationError, match=sentence) as caught:
        transport.ask("SELECT 1")

    assert SECRET not in told(caught.value)


def test_missing_rights_are_named(wire_to, guarded) -> None:
    transport = wire_to(guarded.url(user="app", password=SECRET))

    with pytest.raises(ConfigurationError, match=r"may not do this .*schema public.*CREATE on"):
        transport.look(PostgresqlTables().make)


def test_a_server_without_room_is_an_outage(wire_to, guarded) -> None:
    url = guarded.url(user="app", password=SECRET)
    full = wire_to(url, most=12)
    tasks = [full.flavour.start(full.ask, "SELECT pg_sleep(1)") for _ in range(12)]

    errors = [one.exception() for one in tasks]

    refused = [one for one in errors if one is not None]
    assert refused
    assert all(isinstance(one, BackendUnavailable) for one in refused)
    assert "no room for another connection" in str(refused[0])
    assert SECRET not in told(refused[0])


def test_a_standby_takes_no_locks(wire_to, standby) -> None:
    transport = wire_to(standby.url())

    # On a machine that stands still, the last attempt before the deadline may get no answer.
    refused = pytest.raises(
        (BackendUnavailable, OutcomeUnknown), match=r"no writes: it is a standby.*by itself"
    )
    with refused:
        transport.ask("CREATE TABLE public.x ()", within=8.0)  # a busy machine connects late

    assert transport.inner.greeting.is_standby


def test_a_refusal_is_reported_though_the_server_then_hangs(wire_to, standby) -> None:
    """The error reports the refusal, and not the timeout of the retry on a new connection."""
    transport, before = wire_to(standby.url()), refusals_of(standby)
    asking = transport.flavour.start(transport.ask, "CREATE TABLE public.x ()", within=8.0)
    eventually(lambda: refusals_of(standby) > before, what="it is asked, and refuses")

    standby.pause()
    try:
        error = asking.exception()
    finally:
        standby.resume()

    assert "no writes: it is a standby" in str(error)
    assert isinstance(error.__cause__, psycopg.Error)  # the server's own error


class MovedClock(Clock):
    """A clock that a test moves ahead."""

    ahead = 0.0

    def now(self) -> float:
        return Clock.now() + self.ahead


def attempt(transport: Any, work: Callable[[], None]) -> None:
    """Let the transport do this work on a connection, as often as it wants to."""

    def of_a_thread(_connection: object, _until: float) -> None:
        work()

    async def of_a_task(_connection: object, _until: float) -> None:
        work()

    transport._call("_patiently", of_a_thread if transport.flavour.name == "sync" else of_a_task)


def test_a_refusal_is_told_when_the_attempt_after_it_gets_no_answer(wire_to, server) -> None:
    """The last attempt may have been carried out, so its outcome is unknown, but not its cause."""
    errors = [psycopg.errors.ReadOnlySqlTransaction(), TimeoutError("no answer in time")]

    def work() -> None:
        raise errors.pop(0)

    with pytest.raises(OutcomeUnknown, match=r"no answer in time; .* before: .* standby") as caught:
        attempt(wire_to(server.url()), work)

    assert isinstance(caught.value.__cause__, TimeoutError)


def test_no_attempt_begins_that_probably_gets_no_answer_in_time(wire_to, server) -> None:
    """It would put an outcome in doubt that is known: the server refused, and did nothing."""
    transport, attempts = wire_to(server.url()), []
    clock = transport.inner._clock = MovedClock()

    def work() -> None:
        attempts.append(clock.now())
        clock.ahead = 0.6 * PATIENCE
        raise psycopg.errors.ReadOnlySqlTransaction

    with pytest.raises(BackendUnavailable, match="is a standby"):
        attempt(transport, work)

    assert len(attempts) == 1


def test_a_standby_that_is_promoted_meanwhile_takes_locks(flavour, guarded, name) -> None:
    """A caller that is already asking gets the lock, and does not notice the failover."""
    with StandbyServer(guarded) as standby:
        locks = flavour.locks(standby.url(), request_timeout=30)
        asking = flavour.start(locks.lock(name).acquire, timeout=60)
        eventually(lambda: refusals_of(standby), what="it is asked, and refuses")
        assert not asking.done()

        standby.promote()

        asking.result(60).release()


def test_a_server_that_writes_nothing_for_a_while_is_waited_for(flavour, guarded, name) -> None:
    """A session that began read-only stays so after the default changes; a new one is opened."""
    guarded.run("ALTER ROLE app WITH SUPERUSER")
    guarded.run("ALTER ROLE app SET default_transaction_read_only = on")
    url = guarded.url(user="app", password=SECRET)
    locks = flavour.locks(url, request_timeout=30)
    before = refusals_of(guarded)
    asking = flavour.start(locks.lock(name).acquire, timeout=60)
    eventually(lambda: refusals_of(guarded) > before, what="it is asked, and refuses")
    assert not asking.done()

    guarded.run("ALTER ROLE app RESET default_transaction_read_only")

    asking.result(60).release()
    guarded.run("ALTER ROLE app WITH NOSUPERUSER")


def refusals_of(server: PostgresqlServer) -> int:
    """Return how often the server has refused a write."""
    log = (server.directory / "log").read_text(errors="replace")
    return log.count("read-only transaction") + log.count("during recovery")


def test_among_several_hosts_the_primary_is_found(wire_to, guarded, standby) -> None:
    hosts = f"127.0.0.1:{standby.port},127.0.0.1:{guarded.port}"
    transport = wire_to(f"postgresql://postgres@{hosts}/postgres")

    assert transport.ask("SELECT inet_server_port()") == [(guarded.port,)]


def test_a_host_without_an_address_is_told(wire_to) -> None:
    transport = wire_to(f"postgresql://app:{SECRET}@no-such-host.invalid/postgres")

    with pytest.raises(BackendUnavailable, match="the host name has no address") as caught:
        transport.ask("SELECT 1")

    assert SECRET not in told(caught.value)


def test_a_server_without_tls_is_told(wire_to, server) -> None:
    transport = wire_to(server.url(), sslmode="require")

    with pytest.raises(ConfigurationError, match="does not speak TLS"):
        transport.ask("SELECT 1")


def test_a_socket_is_a_way_too(wire_to, server) -> None:
    transport = wire_to(
        f"postgresql://postgres@/postgres?host={server.directory}&port={server.port}"
    )

    assert transport.ask("SELECT inet_server_port()") == [(None,)]


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://app:{SECRET}%zz@host/postgres",
        f"postgresql://app:{SECRET}@host/postgres?nonsense=1",
        f"postgresql://app:{SECRET}@[::1/postgres",
    ],
)
def test_a_url_that_cannot_be_read_is_not_quoted(url: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read as libpq would") as caught:
        address_of_url(url, where="postgresql://***@host", options={})

    assert SECRET not in told(caught.value)


def test_what_is_shown_of_an_address_has_no_password() -> None:
    address = address_of_url(f"postgresql://app:{SECRET}@host/db", where="there", options={})

    assert SECRET not in repr(address)


def test_a_password_with_an_at_sign_is_not_taken_for_a_host():
    """If part of the password were taken for the host, libpq would find no address for it."""
    with pytest.raises(ConfigurationError, match="is written %40") as refused:
        Locks(f"postgresql://user:a@{SECRET}@host/shop")

    assert SECRET not in str(refused.value)
