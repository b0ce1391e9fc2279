"""Borrowed connections may themselves lead to PgBouncer in transaction mode."""

from __future__ import annotations

import pytest
from backends.sql.lent import PATIENT, lent_pool
from servers.pgbouncer import PgBouncer
from servers.postgresql import shared_server

from lockfast_challenge.processes import eventually


@pytest.fixture(scope="module")
def pooler():
    with PgBouncer(shared_server(), size=3) as one:
        yield one


def test_a_pool_that_leads_to_a_pooler_serves_without_rings(flavour, pooler, held, caplog):
    lending = lent_pool(flavour, pooler.url())
    locks = flavour.adopted(lending.client, **PATIENT)
    waiting = flavour.start(locks.lock(held.name).acquire, timeout=50)
    eventually(lambda: "notifications do not come" in caplog.text, what="it is told")

    held.release()
    waiting.result().release()

    eventually(lending.is_whole, what="all is back")
