"""The URLs of MySQL and MariaDB, which are one store, and what lends connections to one."""

from __future__ import annotations

from typing import Any

from lockfast.backends.sql.clients import (
    LENT_TO,
    is_for_asyncio,
    leads_to,
    objection_to_driver,
    objection_to_engine,
)
from lockfast.backends.sql.removed import advisory_mode
from lockfast.core.declaring import Declaration, ForeignClients

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


DECLARATION = Declaration(
    backend="MysqlBackend",
    schemes={
        "mysql": "mysql://user:password@host:3306/database",
        "mariadb": "mariadb://user:password@host:3306/database",
    },
    extra="mysql",
    removed=advisory_mode(rights="SELECT, INSERT, UPDATE and DELETE on both"),
    factory_options=LENT_TO,
    clients=(
        ForeignClients(
            packages=frozenset({"pymysql", "asyncmy"}),
            listed_as="connections of PyMySQL and asyncmy",
            options=LENT_TO,
            is_asyncio=_is_asyncmy,
            objection=_objection_to_driver,
            refused=dict.fromkeys(("MySQLdb", "aiomysql", "mariadb", "mysql"), OTHER_DRIVER),
        ),
        ForeignClients(
            packages=frozenset({"sqlalchemy"}),
            listed_as="engines of SQLAlchemy with mysql+pymysql:// or mysql+asyncmy://",
            options=LENT_TO,
            is_asyncio=is_for_asyncio,
            is_ours=leads_to("mysql", "mariadb"),
            objection=_objection_to_engine,
        ),
    ),
)
