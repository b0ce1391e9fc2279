"""What advisory locks cannot do is refused by a sentence that says what to do instead."""

from __future__ import annotations

import pytest

from holdfast import BackendUnavailable, ConfigurationError, Locks, TokenUnavailable
from holdfast.challenge.servers.mariadb import MariadbServer
from holdfast.challenge.servers.postgresql import PostgresqlServer, Standby


@pytest.mark.parametrize("scheme", ["postgresql", "mysql", "mariadb"])
def test_another_mode_is_refused_by_naming_those_there_are(scheme):
    with pytest.raises(ConfigurationError, match="mode='advise': accepted: advisory, table"):
        Locks(f"{scheme}://user@host/database", mode="advise")


def test_a_store_without_modes_knows_no_such_option():
    with pytest.raises(ConfigurationError, match="unknown option mode for memory://"):
        Locks("memory://", mode="advisory")


@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
def test_the_usual_mode_may_be_said(scheme):
    with Locks(f"{scheme}://user@host/database?mode=table") as locks:
        assert locks.capabilities.keeps_records


@pytest.mark.parametrize("option", ["table", "connections"])
def test_options_of_tables_are_refused(url, option):
    with pytest.raises(ConfigurationError, match=f"unknown option {option} for .*mode"):
        Locks(url, **{option: "3"})


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"min_hold": 1.0}, "it has no min_hold"),
        ({"lock_delay": 1.0}, "has no lock_delay"),
        ({"owner": "saga"}, "has no explicit owners"),
        ({"ttl": 7.0}, "the ttl is the client's"),
    ],
)
def test_what_would_need_a_record_is_refused(url, name, options, sentence):
    with Locks(url) as locks, pytest.raises(ConfigurationError, match=sentence):
        locks.lock(name, **options)


def test_read_write_locks_and_semaphores_are_refused(url, name):
    with Locks(url) as locks:
        with pytest.raises(ConfigurationError):
            locks.rwlock(name)
        with pytest.raises(ConfigurationError):
            locks.semaphore(name, capacity=2)


def test_there_is_no_token_and_the_error_says_where_there_is_one(rivals):
    lease = rivals.locks().lock(rivals.name).acquire()

    with pytest.raises(TokenUnavailable, match="without mode=advisory"):
        _ = lease.token


def test_a_break_says_which_connection_to_end(store, rivals):
    """And what else ends with it; said to the server, it does."""
    lease = rivals.locks(ttl=60.0).lock(rivals.name).acquire()
    operator = rivals.locks()

    with pytest.raises(ConfigurationError, match="carries all locks of its client") as told:
        operator.break_(rivals.name)
    statement = str(told.value).partition(", say ")[2]
    store.server.run(statement)

    assert lease.lost.wait(20)
    assert operator.break_(f"{rivals.name} free") == ()


def test_names_cannot_be_listed(rivals):
    with pytest.raises(ConfigurationError, match="keeps no names"):
        list(rivals.locks().survey())


def test_who_is_turned_away_is_told_the_connection(rivals):
    held = rivals.locks().lock(rivals.name).acquire()

    seen = rivals.locks().inspect(rivals.name)

    assert held.is_trusted
    assert [one.owner.label.startswith("connection ") for one in seen.holders] == [True]
    assert rivals.locks().inspect(f"{rivals.name} free").holders == ()


def test_a_server_that_is_not_there_is_an_outage(store, flavour, name):
    locks = flavour.locks(store.url("127.0.0.1:1"))

    with pytest.raises(BackendUnavailable, match="nothing listens"):
        locks.lock(name).acquire(timeout=2)


def test_a_standby_is_refused(flavour, name):
    """It gives such locks too, but to its own clients alone."""
    with PostgresqlServer() as primary, Standby(primary) as standby:
        locks = flavour.locks(standby.url(), mode="advisory", request_timeout=10.0)

        with pytest.raises(ConfigurationError, match=r"is a standby.* primary's address"):
            locks.lock(name).acquire(timeout=10)


def test_a_replica_of_mariadb_is_refused(flavour, name):
    with MariadbServer("--read-only=1") as server:
        server.run("CREATE DATABASE test")
        locks = flavour.locks(server.url(), mode="advisory", request_timeout=10.0)

        with pytest.raises(ConfigurationError, match=r"is a replica.* primary's address"):
            locks.lock(name).acquire(timeout=10)
