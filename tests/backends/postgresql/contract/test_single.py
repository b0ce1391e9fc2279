"""The contract on a single PostgreSQL server."""

from __future__ import annotations

from backends.postgresql.contract.on_postgresql import (
    AsyncContractOnPostgresql,
    ContractOnPostgresql,
)
from servers.postgresql import shared_server


def server_url() -> str:
    return shared_server().url()


class TestAsync(AsyncContractOnPostgresql):
    url = server_url


class TestSync(ContractOnPostgresql):
    url = server_url
