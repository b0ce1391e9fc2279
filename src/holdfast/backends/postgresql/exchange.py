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

from holdfast.backends.postgresql.values import BINARY, Rows, encoded, rows_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import Error
    from psycopg.pq.abc import PGconn, PGresult

    from holdfast.backends.sql.steps import Ask


class Exchange:
    """Requests that are sent together; `answers` are their rows, once `is_over`.

    Statements are prepared under a name only where `prepared` says which are: a pooler may
    give the next transaction another connection of the server, which knows none of them.
    An error in one of them keeps the server from doing those that follow; `error` is the first.
    """

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
        self.is_over = False

    def send(self) -> None:
        """Hand all to libpq; what the socket does not take at once goes with `flush`."""
        connection, prepared = self._connection, self._prepared
        for statement, values in self._requests:
            data, forms = encoded(values)
            if prepared is None:
                connection.send_query_params(statement.encode(), data, None, forms, BINARY)
                self._expected.append(b"")
                continue
            name = name_of(statement)
            if name not in prepared:
                connection.send_prepare(name, statement.encode())
                self._expected.append(name)
            connection.send_query_prepared(name, data, forms, BINARY)
            self._expected.append(b"")
        connection.pipeline_sync()
        connection.flush()

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
        while not self.is_over and not connection.is_busy():
            result = connection.get_result()
            if result is not None:
                self._take(result)
            elif lost is not None:
                break  # nothing more will come
        if lost is not None and not self.is_over:
            raise self.error or lost
        return self.is_over

    def _take(self, result: PGresult) -> None:
        status = result.status
        if status == ExecStatus.PIPELINE_SYNC:
            self.is_over = True
        elif status == ExecStatus.FATAL_ERROR:
            self.error = self.error or error_from_result(result)
            self._number += 1
        elif status == ExecStatus.PIPELINE_ABORTED:
            self._number += 1
        else:
            self._understand(result)

    def _understand(self, result: PGresult) -> None:
        name = self._expected[self._number]
        self._number += 1
        if name:
            if self._prepared is not None:
                self._prepared.add(name)
        elif result.status == ExecStatus.TUPLES_OK:
            self.answers.append(rows_in(result))
        else:
            self.answers.append([])


@lru_cache(maxsize=1024)
def name_of(statement: str) -> bytes:
    """Return the name under which a statement is prepared: the same text, the same name."""
    return b"holdfast_" + hashlib.blake2b(statement.encode(), digest_size=8).hexdigest().encode()
