# Generated from src/lockfast/backends/postgresql/_async/lent_link.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""A connection of psycopg's that the application lends, as a link.

Nothing is prepared on it, so nothing is left there. It leaves pipeline mode, hears no channel of
ours any more, and is in no transaction when it goes back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg.pq import TransactionStatus

from lockfast.backends.postgresql.lent_connections import (
    checked,
    is_alive,
    pass_on_notifications,
)
from lockfast.backends.postgresql.link.threads import Link
from lockfast.backends.sql._sync.lent_link import LentLink
from lockfast.backends.sql.steps import Ask

if TYPE_CHECKING:
    from collections.abc import Sequence


class PostgresqlLentLink(LentLink, Link):  # type: ignore[misc]
    """For one request, or for as long as it listens."""

    def _accept(self, given: Any) -> bool:  # noqa: ANN401 - a driver's connection
        connection = checked(given, where=self.where)
        if not is_alive(connection):
            return False
        self._take_over(connection)
        return True

    def _farewell(self) -> Sequence[Ask]:
        status = self.connection.transaction_status
        is_open = status in (TransactionStatus.INTRANS, TransactionStatus.INERROR)
        return [Ask("ROLLBACK"), *self.farewell] if is_open else self.farewell

    def _let_go(self) -> None:
        connection = self.connection
        super()._let_go()
        pass_on_notifications(connection)
