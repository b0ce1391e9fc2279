"""The URLs of PostgreSQL, as libpq writes them."""

from __future__ import annotations

from holdfast.core.declaring import Declaration, Mode

DECLARATION = Declaration(
    backend="PostgresqlBackend",
    schemes={
        "postgresql": "postgresql://host:5432/database",
        "postgres": "postgres://host:5432/database",
    },
    extra="postgresql",
    modes={
        "table": Mode(module="backend", backend="PostgresqlBackend"),
        "advisory": Mode(module="advisory", backend="PostgresqlAdvisoryBackend"),
    },
)
