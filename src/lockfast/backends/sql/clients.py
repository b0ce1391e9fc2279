"""Clients of other libraries that lend connections: told apart without importing any of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

LENT_TO = frozenset({"connections", "table"})
"""What may be given to a store beside them."""


def is_for_asyncio(kind: type) -> bool:
    """Whether a class of psycopg's or SQLAlchemy's, or what it inherits from, is for asyncio."""
    return any(one.__name__.startswith("Async") for one in kind.__mro__)


def is_engine(client: object) -> bool:
    """Whether it is an engine of SQLAlchemy's, as far as a lender has to know."""
    return all(hasattr(client, one) for one in ("connect", "pool", "dialect", "url"))


def is_pool(client: object) -> bool:
    """Whether it is a pool of psycopg's, as far as a lender has to know."""
    return hasattr(client, "getconn")


def leads_to(*dialects: str) -> Callable[[Any], bool]:
    """Return whether what SQLAlchemy has made leads to a server of one of these dialects."""
    return lambda client: getattr(getattr(client, "dialect", None), "name", None) in dialects


def objection_to_engine(
    client: Any,  # noqa: ANN401 - SQLAlchemy is not installed with us
    drivers: Mapping[bool, Collection[str]],
    *,
    example: Mapping[bool, str],
) -> str | None:
    """Say why an engine is refused; `drivers` are those for asyncio (True) and for threads."""
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
    """Say why something of a driver's is refused that is neither a connection nor a pool."""
    if is_pool(client) or (hasattr(client, "cursor") and hasattr(client, "rollback")):
        return None
    return f"cannot be used; give {what}, an engine of SQLAlchemy's, or the URL"


def place(scheme: str, host: object, port: object, database: object) -> str:
    """Return where it leads, for people; no password is among these."""
    authority = f"{host or ''}:{port}" if port else f"{host or ''}"
    return f"{scheme}://{authority}/{database or ''}"
