"""PostgreSQL URLs, in libpq's syntax, and the clients whose connections can be borrowed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockfast.backends.sql.errors import advisory_mode
from lockfast.backends.sql.foreign_clients import (
    BORROWER_OPTIONS,
    connects_to,
    is_for_asyncio,
    objection_to_driver,
    objection_to_engine,
)
from lockfast.core.descriptor import ForeignClients, StoreDescriptor, server_arguments
from lockfast.errors import ConfigurationError

if TYPE_CHECKING:
    from urllib.parse import SplitResult

OPTIONS = BORROWER_OPTIONS | {"schema"}
OTHER_DRIVER = "is of another driver; connect with psycopg 3, or give the locks the URL"


def _objection_to_driver(client: object) -> str | None:
    return objection_to_driver(client, what="a connection or a pool of psycopg's")


def _objection_to_engine(client: Any) -> str | None:  # noqa: ANN401 - not installed with us
    return objection_to_engine(
        client,
        {False: ("psycopg",), True: ("psycopg", "psycopg_async")},
        example=dict.fromkeys((False, True), "postgresql+psycopg://"),
    )


def _place(url: SplitResult, namespace: str) -> dict[str, Any]:
    found = server_arguments(url, namespace)
    if url.netloc.count("@") > 1:
        # For libpq the login ends at the first @. Libpq would take the rest of the password for a
        # part of the host name, and quote that rest in its error.
        raise ConfigurationError(
            f"{found['location']}: an @ in a user or a password is written %40"
        )
    return found


DESCRIPTOR = StoreDescriptor(
    backend="PostgresqlBackend",
    arguments=_place,
    schemes={
        "postgresql": "postgresql://host:5432/database",
        "postgres": "postgres://host:5432/database",
    },
    extra="postgresql",
    driver_needs="install libpq, or pip install 'psycopg[binary]', which brings one",
    removed=advisory_mode(
        rights="USAGE on their schema (option schema) and SELECT, INSERT, UPDATE and DELETE on both"
    ),
    factory_options=OPTIONS,
    clients=(
        ForeignClients(
            packages=frozenset({"psycopg", "psycopg_pool"}),
            listed_as="connections and pools of psycopg 3",
            options=OPTIONS,
            is_asyncio=is_for_asyncio,
            objection=_objection_to_driver,
            refused=dict.fromkeys(("psycopg2", "asyncpg", "aiopg", "pg8000"), OTHER_DRIVER),
        ),
        ForeignClients(
            packages=frozenset({"sqlalchemy"}),
            listed_as="engines of SQLAlchemy with postgresql+psycopg://",
            options=OPTIONS,
            is_asyncio=is_for_asyncio,
            is_ours=connects_to("postgresql"),
            objection=_objection_to_engine,
        ),
    ),
)
