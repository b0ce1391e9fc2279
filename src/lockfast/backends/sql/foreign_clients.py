"""Other libraries' clients that lend connections, recognised without importing those libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

BORROWER_OPTIONS = frozenset({"connections", "table"})
"""The options that a store accepts together with a client of another library."""


def is_for_asyncio(kind: type) -> bool:
    """Return whether a psycopg or SQLAlchemy class, or one of its bases, is for asyncio."""
    return any(one.__name__.startswith("Async") for one in kind.__mro__)


def is_engine(client: object) -> bool:
    """Return whether the client has the attributes of a SQLAlchemy engine that we use."""
    return all(hasattr(client, one) for one in ("connect", "pool", "dialect", "url"))


def is_pool(client: object) -> bool:
    """Return whether the client has the method of a psycopg pool that we use."""
    return hasattr(client, "getconn")


def connects_to(*dialects: str) -> Callable[[Any], bool]:
    """Return a predicate for SQLAlchemy objects that connect to a server of these dialects."""
    return lambda client: getattr(getattr(client, "dialect", None), "name", None) in dialects


def objection_to_engine(
    client: Any,  # noqa: ANN401 - SQLAlchemy is not installed with us
    drivers: Mapping[bool, Collection[str]],
    *,
    example: Mapping[bool, str],
) -> str | None:
    """Return why an engine is refused; None if it is accepted.

    `drivers` has the accepted drivers: for asyncio under the key True, for threads under False.
    """
    if not is_engine(client):
        return "is no engine; give the engine that it came from"
    is_asyncio, driver = is_for_asyncio(type(client)), client.dialect.driver
    if driver not in drivers[is_asyncio]:
        return (
            f"connects by {driver}, which the locks cannot use; make the engine with "
            f"{example[is_asyncio]}, or give the locks the URL"
        )
    if type(client.pool).__name__ == "StaticPool":
        return (
            "lends one connection to all at once (StaticPool), so requests would be mixed up; "
            "choose another poolclass, or give the locks the URL"
        )
    return None


def objection_to_driver(client: object, *, what: str) -> str | None:
    """Return why a driver's object is refused; None if it is a connection or a pool."""
    if is_pool(client) or (hasattr(client, "cursor") and hasattr(client, "rollback")):
        return None
    return f"cannot be used; give {what}, an engine of SQLAlchemy's, or the URL"


def location_of_client(scheme: str, host: object, port: object, database: object) -> str:
    """Return the server that the client connects to, for display, without a password."""
    authority = f"{host or ''}:{port}" if port else f"{host or ''}"
    return f"{scheme}://{authority}/{database or ''}"
