"""The two tables in MySQL and MariaDB: how to create them, and how to recognise them as ours.

Keys are bytes, because every text collation treats some different names as equal.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from lockfast.backends.sql.schema import TABLE_COMMENT, ColumnTypes, Tables, columns_of
from lockfast.backends.sql.steps import Query
from lockfast.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lockfast.backends.sql.steps import Rows

TEXT_TYPE = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"

_TYPES = ColumnTypes(
    key="varbinary(640)",
    text=f"varchar(128) {TEXT_TYPE}",
    long_text=f"mediumtext {TEXT_TYPE}",
    number="bigint",
    state="tinyint",
    seconds="double",
)
CLAIM_COLUMNS = _TYPES.of_claim()
# The catalogue has only the first word of each type.
_REPORTED = ColumnTypes(*(re.split(r"[ (]", kind)[0] for kind in _TYPES))

_INNODB = f"ENGINE=InnoDB ROW_FORMAT=DYNAMIC COMMENT='{TABLE_COMMENT}'"

_LOOK = """
SELECT c.TABLE_NAME, c.COLUMN_NAME, c.DATA_TYPE, t.TABLE_COMMENT, t.ENGINE
FROM information_schema.COLUMNS AS c JOIN information_schema.TABLES AS t
    ON t.TABLE_SCHEMA = c.TABLE_SCHEMA AND t.TABLE_NAME = c.TABLE_NAME
WHERE c.TABLE_SCHEMA = DATABASE() AND c.TABLE_NAME IN (%s, %s)
"""


@dataclass(frozen=True)
class MysqlTables(Tables):
    """The names of the tables, in the database of the URL."""

    right_to_make = "CREATE on the database"
    columns: ClassVar[tuple[Mapping[str, str], Mapping[str, str]]] = (
        _REPORTED.of_door(),
        _REPORTED.of_place(),
    )

    def _quoted(self, name: str) -> str:
        return f"`{name}`"

    def definition(self) -> list[str]:
        # The second key is for long lines. A request reads only the entries that do not wait and
        # the head of the line.
        keys = "PRIMARY KEY (`key`, arrived), KEY standings (`key`, standing, arrived)"
        door, place = (columns_of(one, quote="`") for one in (_TYPES.of_door(), _TYPES.of_place()))
        return [
            f"CREATE TABLE IF NOT EXISTS {self.door} ({door}, PRIMARY KEY (`key`)) {_INNODB}",
            f"CREATE TABLE IF NOT EXISTS {self.place} ({place}, {keys}) {_INNODB}",
        ]

    def trial(self) -> list[Query]:
        """Return statements that change no row, and fail only if a privilege is missing."""
        return [
            Query(statement)
            for one in (self.door, self.place)
            for statement in (
                f"INSERT INTO {one} SELECT * FROM {one} WHERE FALSE",
                f"UPDATE {one} SET weight = weight WHERE FALSE",
                f"DELETE FROM {one} WHERE FALSE",
            )
        ]

    def look(self) -> Query:
        return Query(_LOOK, self.names)

    def are_there(self, rows: Rows) -> bool:
        for table, *_, engine in rows:
            if str(engine).lower() != "innodb":
                raise ConfigurationError(
                    f"`{table}` is a table of {engine}, which has no transactions; "
                    "choose another table="
                )
        return super().are_there(
            [
                (str(table).rpartition("_")[2].lower(), str(column), str(kind).lower(), str(remark))
                for table, column, kind, remark, _ in rows
            ]
        )
