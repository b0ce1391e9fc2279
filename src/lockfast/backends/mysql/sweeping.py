"""How idle names go from the tables of MySQL and MariaDB."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lockfast.backends.mysql.statements import KEYS, NOW
from lockfast.backends.sql.steps import Ask, AskMany
from lockfast.backends.sql.sweeping import SWEEP_AFTER, Broom

if TYPE_CHECKING:
    from lockfast.backends.mysql.schema import Tables
    from lockfast.backends.sql.steps import Steps

_OLD = f"last_token < ({NOW} - {SWEEP_AFTER}) * 1000000"
# As long ago the lease has ended, and all that it kept closed: one that died, at a name that
# nobody asked for since.
_OVER = f"GREATEST(until + lock_delay, since + min_hold) < {NOW} - {SWEEP_AFTER}"
_NOBODY = f"{_OLD} AND (id = '' OR {_OVER})"

_SWEEP = f"""
SELECT COUNT(*), MAX(`key`), 0, COALESCE(MAX(is_left), 0) FROM (
    SELECT `key`, {_NOBODY} AS is_left FROM {{door}} WHERE `key` > %s ORDER BY `key` LIMIT %s
) AS seen
"""
# Whoever is at work on a row has it locked, and is left alone: a broom that waited would make
# others wait behind it. The condition is asked of the row as it is once it is locked.
_LOCK = f"""
SELECT `key`, crowd FROM {{door}} WHERE `key` > %s AND `key` <= %s AND {_NOBODY}
ORDER BY `key` FOR UPDATE SKIP LOCKED
"""
# Who waits does so without an end. But where nobody was inside for a day, who lives would have
# been let in. Read once the name is locked, by a read that sees the present.
_ALIVE = f"""
SELECT p.`key` FROM {KEYS} AS j STRAIGHT_JOIN {{place}} AS p ON p.`key` = UNHEX(j.k)
WHERE p.standing <> 3 AND NOT ({_OVER}) FOR UPDATE
"""
_DROP_LINE = "DELETE FROM {place} WHERE `key` = %s"
_DROP = "DELETE FROM {door} WHERE `key` = %s"


class MysqlBroom(Broom):
    """A few rows are looked at by one statement; what is left goes by steps."""

    def __init__(self, tables: Tables) -> None:
        sweep, self._lock, self._alive, self._drop_line, self._drop = (
            one.format(door=tables.door, place=tables.place)
            for one in (_SWEEP, _LOCK, _ALIVE, _DROP_LINE, _DROP)
        )
        super().__init__(sweep)

    def lines(self, between: tuple[bytes, bytes]) -> Steps[int]:
        """Sweep names behind the first, up to the second; return how many went."""
        [found] = yield [Ask(self._lock, between)]
        keys = [bytes(key) for key, _ in found]
        crowded = [bytes(key) for key, crowd in found if crowd]
        if crowded:
            wanted = json.dumps([key.hex() for key in crowded])
            [rows] = yield [Ask(self._alive, (wanted,))]
            alive = {bytes(key) for (key,) in rows}
            keys = [key for key in keys if key not in alive]
        gone = [(key,) for key in keys]
        if gone:
            yield [AskMany(self._drop_line, gone), AskMany(self._drop, gone)]
        return len(gone)
