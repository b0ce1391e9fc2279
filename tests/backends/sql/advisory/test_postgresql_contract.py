"""The contract of advisory locks on PostgreSQL."""

from __future__ import annotations

from backends.sql.advisory.of_advisory_locks import (
    AsyncContractOfAdvisoryLocks,
    ContractOfAdvisoryLocks,
)
from servers.postgresql import shared_server


def server_url() -> str:
    return shared_server().url()


class TestAsync(AsyncContractOfAdvisoryLocks):
    url = server_url


class TestSync(ContractOfAdvisoryLocks):
    url = server_url
