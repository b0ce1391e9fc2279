"""The URLs of MySQL and MariaDB, and the clients that may lend connections to this backend."""

from __future__ import annotations

from typing import Any

from lockfast.backends.sql.errors import advisory_mode
from lockfast.backends.sql.foreign_clients import (
    BORROWER_OPTIONS,
    connects_to,
    is_for_asyncio,
    objection_to_driver,
    objection_to_engine,
)
from lockfast.core.descriptor import ForeignClients, StoreDescriptor

OTHER_DRIVER = (
    "is of another driver; connect with PyMySQL, in asyncio with asyncmy, or give the locks the URL"
)


def _is_asyncmy(kind: type) -> bool:
    return any(one.__module__.partition(".")[0] == "asyncmy" for one in kind.__mro__)


def _objection_to_driver(client: object) -> str | None:
    return objection_to_driver(client, what="a connection of PyMySQL's or asyncmy's")


def _objection_to_engine(client: Any) -> str | None:  # noqa: ANN401 - not installed with us
    return objection_to_engine(
        client,
        {False: ("pymysql",), True: ("asyncmy",)},
        example={False: "mysql+pymysql://", True: "mysql+asyncmy://"},
    )


DESCRIPTOR = StoreDescriptor(
    backend="MysqlBackend",
    schemes={
        "mysql": "mysql://user:password@host:3306/database",
        "mariadb": "mariadb://user:password@host:3306/database",
    },
    extra="mysql",
    removed=advisory_mode(rights="SELECT, INSERT, UPDATE and DELETE on both"),
    factory_options=BORROWER_OPTIONS,
    clients=(
        ForeignClients(
            packages=frozenset({"pymysql", "asyncmy"}),
            listed_as="connections of PyMySQL and asyncmy",
            options=BORROWER_OPTIONS,
            is_asyncio=_is_asyncmy,
            objection=_objection_to_driver,
            refused=dict.fromkeys(("MySQLdb", "aiomysql", "mariadb", "mysql"), OTHER_DRIVER),
        ),
        ForeignClients(
            packages=frozenset({"sqlalchemy"}),
            listed_as="engines of SQLAlchemy with mysql+pymysql:// or mysql+asyncmy://",
            options=BORROWER_OPTIONS,
            is_asyncio=is_for_asyncio,
            is_ours=connects_to("mysql", "mariadb"),
            objection=_objection_to_engine,
        ),
    ),
)
