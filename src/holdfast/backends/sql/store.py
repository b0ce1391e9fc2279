"""What a server's store brings to the backend that they all share."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from holdfast.backends.sql.dialect import Dialect
    from holdfast.backends.sql.ringing import Ringing
    from holdfast.backends.sql.statements import Statements
    from holdfast.backends.sql.sweeping import Broom
    from holdfast.backends.sql.tables import Tables


class Store(NamedTuple):
    """Its words: the tables, and the statements on them for the names of one namespace."""

    tables: Tables
    dialect: Dialect
    statements: Statements
    ringing: Ringing
    broom: Broom
