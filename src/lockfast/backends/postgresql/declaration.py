"""The URLs of PostgreSQL, as libpq writes them, and what lends connections to one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockfast.backends.sql.clients import (
    LENT_TO,
    is_for_asyncio,
    leads_to,
    objection_to_driver,
    objection_to_engine,
)
from lockfast.backends.sql.removed import advisory_mode
from lockfast.core.declaring import Declaration, ForeignClients, place_of_server
from lockfast.errors import ConfigurationError

if TYPE_CHECKING:
    from urllib.parse import SplitResult

OPTIONS = LENT_TO | {"schema"}
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
    found = place_of_server(url, namespace)
    if url.netloc.count("@") > 1:
        # To libpq the login ends at the first: it would look for a host, and name it, that is
        # called like the rest of the password.
        raise ConfigurationError(
            f"{found['location']}: an @ in a user or a password is written %40"
        )
    return found


DECLARATION = Declaration(
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
            is_ours=leads_to("postgresql"),
            objection=_objection_to_engine,
        ),
    ),
)
