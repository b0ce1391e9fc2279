"""A worker's transaction may lock rows for long, while renewals and results go on.

The transaction and the renewals do not wait for each other.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from databases import Database, connected
from stock import LONG
from test_claim_rows import five_jobs, following, play

from lockfast import OutcomeUnknown
from lockfast.model import Grant, Renewal
from lockfast.runtime.clock import Clock
from lockfast.sql_rows import claim_rows
from lockfast.sql_rows._sync.row_leases import OwnConnections, RowLeases
from lockfast.sql_rows.claiming import Claimable, RowClaim

PATIENCE = 30.0
"""Timeout that only a hang exceeds, in seconds."""


@pytest.fixture
def jobs(request) -> str:
    one = next(name for name in ("database", "plain") if name in request.fixturenames)
    return five_jobs(request.getfixturevalue(one))


def until(database: Database, table: str, key: int) -> float:
    [[found]] = database.run(f"SELECT claimed_until FROM {table} WHERE id = {key}")
    return float(found)


async def renewed(database: Database, table: str, key: int) -> bool:
    """Return whether the row's deadline moves within the timeout."""
    first, end = until(database, table, key), time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if until(database, table, key) > first:
            return True
        await asyncio.sleep(0.02)
    return False


@pytest.mark.parametrize(
    "database",
    ["postgresql", "sqlalchemy mariadb", "mariadb asyncio"],
    indirect=True,
)
def test_a_row_that_a_transaction_locks_holds_up_no_other(database, jobs):
    """The locked row stays ours, and is renewed when the transaction ends."""

    async def scene(claiming):
        rows = claiming(database, jobs, limit=3, ttl=12)
        held = [await following(rows) for _ in range(3)]
        transaction = connected(database.name, database.address())
        transaction.cursor().execute(f"UPDATE {jobs} SET born = 99 WHERE id = 4")

        others = [await renewed(database, jobs, key) for key in (5, 3)]
        for row in held:
            row.check()
        transaction.rollback()
        transaction.close()
        return [*others, await renewed(database, jobs, 4)]

    assert play(scene) == [True, True, True]


@pytest.mark.parametrize("plain", ["postgresql"], indirect=True)
def test_a_row_that_new_rows_refer_to_is_renewed(plain, jobs):
    """Until its commit, an insert locks the row it refers to, but only against key changes."""
    results = plain.table(f"job INTEGER REFERENCES {jobs}")
    transaction = connected(plain.name, plain.address())

    async def scene(claiming):
        row = await following(claiming(plain, jobs, ttl=9))
        transaction.cursor().execute(f"INSERT INTO {results} VALUES ({row['id']})")
        return await renewed(plain, jobs, row["id"])

    assert play(scene)
    transaction.rollback()
    transaction.close()


def test_a_result_in_a_transaction_waits_for_no_renewal(plain, jobs):
    """A renewal may itself wait for the commit of that transaction; here it waits for the test."""
    home, asked, word = threading.get_ident(), threading.Event(), threading.Event()

    def connect():
        if threading.get_ident() != home:
            asked.set()
            word.wait()
        return connected(plain.name, plain.address())

    rows = claim_rows(connect, jobs, key="id", where={"state": "pending"}, limit=5, ttl=3)
    rest = list(rows)
    first = rest.pop()
    for row in rest:
        row.finish(state="done")
    assert asked.wait(PATIENCE)
    giving_up = threading.Timer(PATIENCE, word.set)
    giving_up.start()

    transaction = connected(plain.name, plain.address())
    first.finish(transaction, state="done")
    has_waited = word.is_set()

    transaction.commit()
    transaction.close()
    giving_up.cancel()
    word.set()
    rows.close()
    assert not has_waited
    assert set(dict(plain.run(f"SELECT id, state FROM {jobs}")).values()) == {"done"}


def test_a_renewal_waits_for_sqlites_writer_no_longer_than_it_may(tmp_path):
    """Afterwards the connection has its usual timeout again: a pool may lend it to others."""
    database, clock, made = Database("sqlite", tmp_path), Clock(), []
    leases, grant = claimed(database, five_jobs(database), made)
    writer = connected(database.name, database.address())
    writer.execute("BEGIN IMMEDIATE")

    with pytest.raises(OutcomeUnknown, match="locked"):
        leases.renew([grant], deadline=clock.now() + 0.05)
    writer.rollback()
    answers = leases.renew([grant], deadline=clock.now() + 600)

    assert answers == [Renewal.RENEWED]
    assert made[-1].execute("PRAGMA busy_timeout").fetchall() == [(1000 * LONG,)]
    writer.close()
    leases.close()


@pytest.mark.parametrize("plain", ["sqlite", "postgresql"], indirect=True)
def test_a_row_is_given_back_no_later_than_it_may_be(plain, jobs):
    """Otherwise a close would wait for ever for a transaction that its own caller ends later.

    MySQL gives up by itself, after innodb_lock_wait_timeout.
    """
    leases, grant = claimed(plain, jobs, [])
    transaction = connected(plain.name, plain.address())
    transaction.cursor().execute(f"UPDATE {jobs} SET born = 99 WHERE id = 1")
    clock = Clock()

    with pytest.raises(OutcomeUnknown, match="lock"):
        leases.release(grant, deadline=clock.now() + 0.05, tombstone=False)
    transaction.rollback()
    transaction.close()

    assert leases.release(grant, deadline=clock.now() + 600, tombstone=False)
    leases.close()


def claimed(database: Database, table: str, made: list[Any]) -> tuple[RowLeases, Grant]:
    """Return the port itself and its claim of the first row; record the connections made."""
    pending = {"where": {"state": "pending"}, "order_by": None}
    own = {"until": "claimed_until", "token": "claim_token"}
    claimable = Claimable.of(table, key="id", **pending, **own)

    def connect() -> Any:
        made.append(database.connect())
        return made[-1]

    leases = RowLeases(claimable, OwnConnections(connect), Clock())  # type: ignore[abstract]
    token, [row] = leases.claim(1, 600.0)
    who = {"id": "1" * 32, "name": "one", "client": "2" * 32, "owner": "", "ttl": 600.0}
    key = claimable.of_row(row)
    claim = RowClaim(**who, weight=1, capacity=1, key=key, token=token)
    return leases, Grant(claim, token, 600.0)
