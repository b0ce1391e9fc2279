"""The contract of advisory locks on MariaDB, by GET_LOCK."""

from __future__ import annotations

from backends.sql.advisory.of_advisory_locks import (
    AsyncContractOfAdvisoryLocks,
    ContractOfAdvisoryLocks,
)
from servers.mariadb import shared_server


def server_url() -> str:
    server = shared_server()
    server.run("CREATE DATABASE IF NOT EXISTS test")
    return server.url()


class TestAsync(AsyncContractOfAdvisoryLocks):
    url = server_url
    late = 0.75
    """It ends a silent session after whole seconds."""


class TestSync(ContractOfAdvisoryLocks):
    url = server_url
    late = 0.75
