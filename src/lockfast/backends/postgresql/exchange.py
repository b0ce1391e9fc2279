"""One round trip to the server: statements that go together, and the answer to each.

Nothing here waits. The two flavours wait for the socket in their own ways, and drive this. It
stands on `psycopg.pq`, the driver's own door to libpq: the driver's cursors have no deadline,
and answer an interrupt by asking the server to cancel and waiting up to ten seconds for it.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING

from psycopg import OperationalError
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus

from lockfast.backends.postgresql.values import BINARY, Rows, encoded, rows_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import Error
    from psycopg.pq.abc import PGconn, PGresult

    from lockfast.backends.sql.steps import Ask

# Looked up in the driver's enumeration, each would cost as much as a call.
_TUPLES_OK = int(ExecStatus.TUPLES_OK)
_FATAL_ERROR = int(ExecStatus.FATAL_ERROR)
_PIPELINE_SYNC = int(ExecStatus.PIPELINE_SYNC)
_PIPELINE_ABORTED = int(ExecStatus.PIPELINE_ABORTED)


class Exchange:
    """Requests that are sent together; `answers` are their rows, once all were read.

    Statements are prepared under a name only where `prepared` says which are: a pooler may
    give the next transaction another connection of the server, which knows none of them.
    An error in one of them keeps the server from doing those that follow; `error` is the first.
    """

    __slots__ = (
        "_connection",
        "_expected",
        "_number",
        "_prepared",
        "_requests",
        "answers",
        "error",
    )

    def __init__(
        self, connection: PGconn, requests: Sequence[Ask], *, prepared: set[bytes] | None
    ) -> None:
        self._connection = connection
        self._requests = requests
        self._prepared = prepared
        self._expected: list[bytes] = []
        self._number = 0
        self.answers: list[Rows] = []
        self.error: Error | None = None

    def send(self) -> bool:
        """Hand all to libpq, which sends what the socket takes; true if that was all."""
        connection, prepared, expected = self._connection, self._prepared, self._expected
        for statement, values in self._requests:
            data, forms = encoded(values)
            if prepared is None:
                connection.send_query_params(statement.encode(), data, None, forms, BINARY)
            else:
                name = name_of(statement)
                # Nor twice in one go: what writes several rows is sent for each of them.
                if name not in prepared and name not in expected:
                    connection.send_prepare(name, statement.encode())
                    expected.append(name)
                connection.send_query_prepared(name, data, forms, BINARY)
            expected.append(b"")
        connection.pipeline_sync()
        return connection.flush() == 0

    def flush(self) -> bool:
        """Send what is left; true if nothing is."""
        return self._connection.flush() == 0

    def read(self) -> bool:
        """Take what has come, and return whether all has."""
        connection = self._connection
        lost: OperationalError | None = None
        try:
            connection.consume_input()
        except OperationalError as error:
            lost = error  # its last words may have come before
        while not connection.is_busy():
            result = connection.get_result()
            if result is None:
                if lost is not None:
                    break  # nothing more will come
            elif result.status == _PIPELINE_SYNC:
                return True
            else:
                self._take(result)
        if lost is not None:
            raise self.error or lost
        return False

    def _take(self, result: PGresult) -> None:
        """Understand the answer to a request, or to the wish to prepare one."""
        number, status = self._number, result.status
        self._number = number + 1
        if status == _FATAL_ERROR:
            # Of the last words of a connection there may be more than was asked.
            self.error = self.error or error_from_result(result)
        elif status == _PIPELINE_ABORTED:
            return
        elif not (name := self._expected[number]):
            self.answers.append(rows_in(result) if status == _TUPLES_OK else [])
        elif self._prepared is not None:
            self._prepared.add(name)


@lru_cache(maxsize=1024)
def name_of(statement: str) -> bytes:
    """Return the name under which a statement is prepared: the same text, the same name."""
    return b"lockfast_" + hashlib.blake2b(statement.encode(), digest_size=8).hexdigest().encode()
