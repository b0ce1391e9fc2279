"""The two tables: how they are made, and how one knows that they are ours.

`door` has one row for each name, which stays: the capacity, the last token, how many stand in
`place`, and whoever came first to an empty door. `place` has a row for everybody else. Keys are
bytes: every collation of text takes some different names for the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.backends.sql.steps import Ask
from holdfast.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.backends.sql.steps import Rows

FORMAT = 1

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,47}")
_TEXT = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"

CLAIM = {
    "id": f"varchar(128) {_TEXT}",
    "client": f"varchar(128) {_TEXT}",
    "owner": f"mediumtext {_TEXT}",
    "party": f"varchar(128) {_TEXT}",
    "weight": "bigint",
    "ttl": "double",
    "lock_delay": "double",
    "min_hold": "double",
    "standing": "tinyint",
    "until": "double",
    "since": "double",
    "token": "bigint",
    "bell": f"varchar(128) {_TEXT}",
}
KEY = "varbinary(640)"
DOOR = {
    "key": KEY,
    **CLAIM,
    "capacity": "bigint",
    "last_token": "bigint",
    "crowd": "bigint",
    "head": "bigint",
}
PLACE = {"key": KEY, "arrived": "bigint", **CLAIM}

_MAY_BE_NULL = "party"
_INNODB = f"ENGINE=InnoDB ROW_FORMAT=DYNAMIC COMMENT='Holdfast, format {FORMAT}'"

_LOOK = """
SELECT c.TABLE_NAME, c.COLUMN_NAME, c.DATA_TYPE, t.TABLE_COMMENT, t.ENGINE
FROM information_schema.COLUMNS AS c JOIN information_schema.TABLES AS t
    ON t.TABLE_SCHEMA = c.TABLE_SCHEMA AND t.TABLE_NAME = c.TABLE_NAME
WHERE c.TABLE_SCHEMA = DATABASE() AND c.TABLE_NAME IN (%s, %s)
"""


@dataclass(frozen=True, slots=True)
class Tables:
    """How the tables are called, in the database of the URL."""

    table: str = "holdfast"

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.table):
            raise ConfigurationError(
                f"table={self.table!r}: 1 to 48 letters, digits or _ are accepted, "
                "a letter or _ first"
            )

    @property
    def door(self) -> str:
        """The table of the names, as a statement says it."""
        return f"`{self.table}_door`"

    @property
    def place(self) -> str:
        """The table of all others, as a statement says it."""
        return f"`{self.table}_place`"

    def definition(self) -> list[str]:
        """Return the statements that make what is not there."""
        # Of a line of thousands a verb reads those who do not wait, and the front; and a client
        # looks after those of its own.
        keys = (
            "PRIMARY KEY (`key`, arrived)",
            "KEY standings (`key`, standing, arrived)",
            "KEY clients (client)",
        )
        door, place = _columns(DOOR), _columns(PLACE)
        return [
            f"CREATE TABLE IF NOT EXISTS {self.door} ({door}, PRIMARY KEY (`key`)) {_INNODB}",
            f"CREATE TABLE IF NOT EXISTS {self.place} ({place}, {', '.join(keys)}) {_INNODB}",
        ]

    def look(self) -> Ask:
        """Ask for the columns of both, and what is remarked on them."""
        return Ask(_LOOK, (f"{self.table}_door", f"{self.table}_place"))

    def are_there(self, rows: Rows, *, where: str) -> bool:
        """Return whether the tables are there; raise if they are not ours, or too new."""
        found: dict[str, dict[str, str]] = {"door": {}, "place": {}}
        for table, column, kind, remark, engine in rows:
            which = str(table).rpartition("_")[2].lower()
            found[which][str(column)] = str(kind).lower()
            self._check(f"{where}: {table}", str(remark), str(engine))
        for which, expected in (("door", DOOR), ("place", PLACE)):
            there = found[which]
            if there and there != _kinds(expected):
                raise ConfigurationError(
                    f"{where}: {self.table}_{which} is there and is not Holdfast's {which} table: "
                    f"{_difference(there, _kinds(expected))}; choose another table="
                )
        return bool(found["door"] and found["place"])

    def _check(self, table: str, remark: str, engine: str) -> None:
        said = re.fullmatch(r"Holdfast, format (\d+)", remark)
        if said is not None and int(said[1]) > FORMAT:
            raise ConfigurationError(
                f"{table} was made by a newer Holdfast (format {said[1]}, this one knows "
                f"{FORMAT}); upgrade this one"
            )
        if engine.lower() != "innodb":
            raise ConfigurationError(
                f"{table} is a table of {engine}, which has no transactions; choose another table="
            )


def _columns(columns: Mapping[str, str]) -> str:
    return ", ".join(
        f"`{name}` {kind}" + ("" if name == _MAY_BE_NULL else " NOT NULL")
        for name, kind in columns.items()
    )


def _kinds(columns: Mapping[str, str]) -> dict[str, str]:
    return {name: re.split(r"[ (]", kind)[0] for name, kind in columns.items()}


def _difference(found: Mapping[str, str], expected: Mapping[str, str]) -> str:
    missing = [name for name in expected if name not in found]
    if missing:
        return f"it has no column {missing[0]!r}"
    strange = [name for name in found if name not in expected]
    if strange:
        return f"it has a column {strange[0]!r}"
    [other, *_] = [name for name in expected if found[name] != expected[name]]
    return f"its column {other!r} is {found[other]} instead of {expected[other]}"
