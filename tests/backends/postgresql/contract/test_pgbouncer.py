"""The contract on PostgreSQL behind PgBouncer in transaction mode, without notifications."""

from __future__ import annotations

from functools import cache

import pytest
from backends.postgresql.contract.on_postgresql import (
    AsyncContractOnPostgresql,
    ContractOnPostgresql,
)
from servers.pgbouncer import PgBouncer
from servers.postgresql import shared_server


@cache
def shared_pooler() -> PgBouncer:
    """Return the pooler that all tests of this run share."""
    return PgBouncer(shared_server()).start()


def pooler_url() -> str:
    return shared_pooler().url()


class TestAsync(AsyncContractOnPostgresql):
    url = pooler_url


@pytest.mark.soak  # `make test` runs the other flavour of this deployment
class TestSync(ContractOnPostgresql):
    url = pooler_url
