"""What a server's store brings to the backend that they all share."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lockfast.backends.sql.dialect import Dialect
    from lockfast.backends.sql.ringing import Ringing
    from lockfast.backends.sql.statements import Statements
    from lockfast.backends.sql.sweeping import Broom
    from lockfast.backends.sql.tables import Tables


class Store(NamedTuple):
    """Its words: the tables, and the statements on them for the names of one namespace."""

    tables: Tables
    dialect: Dialect
    statements: Statements
    ringing: Ringing
    broom: Broom
