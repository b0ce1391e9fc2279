"""What the doctor finds about a primary and its standbys."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.postgresql import PostgresqlServer, StandbyServer


@pytest.fixture(scope="module")
def primary() -> Iterator[PostgresqlServer]:
    with PostgresqlServer() as one:
        yield one


@pytest.fixture(scope="module")
def standby(primary) -> Iterator[StandbyServer]:
    with StandbyServer(primary) as one:
        streaming = "SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'"
        eventually(lambda: primary.run(streaming))
        yield one


@pytest.fixture
def server(primary) -> PostgresqlServer:
    return primary


@pytest.fixture
def waited_for(primary):
    """Return a function that makes commits wait for these standbys until the test ends."""

    def set_to(names: str) -> None:
        # This connection waits for no standby; otherwise the change itself would hang.
        with primary.connect(options="-c synchronous_commit=local") as connection:
            connection.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
            connection.execute("SELECT pg_reload_conf()")
        eventually(lambda: primary.run("SHOW synchronous_standby_names") == [(names,)])

    yield set_to
    set_to("")


def sync_state(primary: PostgresqlServer) -> str:
    [[state]] = primary.run("SELECT sync_state FROM pg_stat_replication")
    return str(state)


def test_a_failover_forgets_what_no_standby_was_waited_for(finding, standby) -> None:
    found = finding("replication")

    assert found.level == "warning"
    assert "do not wait for the 1 standby(s)" in found.message
    assert "set synchronous_standby_names" in found.remedy


def test_commits_that_wait_for_a_standby(finding, primary, standby, waited_for) -> None:
    waited_for("*")
    eventually(lambda: sync_state(primary) == "sync")

    assert finding("replication").level == "ok"


def test_a_user_whose_commits_do_not_wait(finding, primary, standby, user, waited_for) -> None:
    """The finding is right even for a user who may not see which standbys are synchronous."""
    primary.run(f"ALTER ROLE {user} SET synchronous_commit = local")
    waited_for("*")
    eventually(lambda: sync_state(primary) == "sync")

    found = finding("replication", primary.url(user=user))

    assert found.level == "warning"
    assert "it is local" in found.remedy


def test_anybody_may_know_that_commits_wait(finding, primary, standby, user, waited_for) -> None:
    waited_for("*")
    eventually(lambda: sync_state(primary) == "sync")

    assert finding("replication", primary.url(user=user)).level == "ok"


def test_nobody_is_there_to_be_waited_for(finding, standby, waited_for) -> None:
    waited_for("somebody_else")

    found = finding("replication")

    assert found.level == "error"
    assert "nothing can be locked" in found.message


def test_a_standby_given_as_the_server(finding, standby) -> None:
    found = finding("replication", standby.url())

    assert found.level == "error"
    assert "is a standby, which takes no writes" in found.message
    assert "give the primary's address" in found.remedy
