"""One round trip to the server: statements that are sent together, and the reply to each.

This module never waits; each flavour waits for the socket in its own way and drives the exchange.
This module uses `psycopg.pq`, the driver's own interface to libpq, because the driver's cursors
have no deadline, and on an interrupt they ask the server to cancel and wait up to ten seconds for
that.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Any, TypeAlias

from psycopg import OperationalError
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from psycopg import Error
    from psycopg.pq.abc import PGconn, PGresult

    from lockfast.backends.sql.steps import Query

# Encodes values for the server, and decodes its rows.

Rows: TypeAlias = list[tuple[Any, ...]]

TEXT, BINARY = 0, 1


def encoded(values: Sequence[object]) -> tuple[list[bytes | None], list[int]]:
    """Return the encoded values and the format of each; the statement determines the types."""
    found: list[bytes | None] = []
    forms: list[int] = []
    for value in values:
        # The most frequent types come first, because each request pays for these checks; most
        # values are text.
        data: bytes | None
        if type(value) is str:
            data = value.encode()
            # In the text format, the value would end at the zero byte and become another value. In
            # the binary format the server sees the whole value, and refuses it.
            form = BINARY if b"\0" in data else TEXT
        elif type(value) is float or type(value) is int:
            data, form = repr(value).encode(), TEXT  # repr gives every digit of a float
        elif value is None:
            data, form = None, TEXT
        elif type(value) is bytes:
            data, form = value, BINARY
        else:
            data, form = _encoded(value)
        found.append(data)
        forms.append(form)
    return found, forms


def _encoded(value: object) -> tuple[bytes | None, int]:
    """Encode an instance of a subclass, such as a member of an enumeration."""
    if isinstance(value, bool):
        return (b"t" if value else b"f"), TEXT
    [data], [form] = encoded([int(value) if isinstance(value, int) else str(value)])
    return data, form


def _number(form: str) -> Callable[[bytes], Any]:
    unpack = Struct(form).unpack
    return lambda data: unpack(data)[0]


def _text(data: bytes) -> str:
    return data.decode()


_DECODERS: dict[int, Callable[[bytes], Any]] = {
    16: lambda data: data == b"\1",  # bool
    17: bytes,
    18: _text,  # "char"
    19: _text,  # name
    20: _number(">q"),
    21: _number(">h"),
    23: _number(">i"),
    25: _text,
    26: _number(">I"),  # oid
    114: _text,  # json
    701: _number(">d"),
    1043: _text,  # varchar
}


def rows_in(result: PGresult) -> Rows:
    """Return the rows of a result in the binary format."""
    count = result.ntuples
    if not count:
        return []
    value_at = result.get_value
    columns = [(i, _DECODERS.get(result.ftype(i), bytes)) for i in range(result.nfields)]
    return [
        tuple(
            [None if (data := value_at(row, i)) is None else decode(data) for i, decode in columns]
        )
        for row in range(count)
    ]


# Plain numbers, because each lookup in the driver's enumeration would cost as much as a call.
_TUPLES_OK = int(ExecStatus.TUPLES_OK)
_FATAL_ERROR = int(ExecStatus.FATAL_ERROR)
_PIPELINE_SYNC = int(ExecStatus.PIPELINE_SYNC)
_PIPELINE_ABORTED = int(ExecStatus.PIPELINE_ABORTED)


class Exchange:
    """Requests that are sent together; `answers` has their rows once all replies are read.

    Statements are prepared only if `prepared`, the set of names prepared so far, is given. Behind a
    pooler it is None, because the next transaction may get another server connection, on which none
    of the prepared statements exists. After an error the server skips the requests that follow;
    `error` is the first error.
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
        self, connection: PGconn, requests: Sequence[Query], *, prepared: set[bytes] | None
    ) -> None:
        self._connection = connection
        self._requests = requests
        self._prepared = prepared
        self._expected: list[bytes] = []
        self._number = 0
        self.answers: list[Rows] = []
        self.error: Error | None = None

    def send(self) -> bool:
        """Pass all requests to libpq, and return whether the socket has taken all of the data."""
        connection, prepared, expected = self._connection, self._prepared, self._expected
        for statement, values in self._requests:
            data, forms = encoded(values)
            if prepared is None:
                connection.send_query_params(statement.encode(), data, None, forms, BINARY)
            else:
                name = name_of(statement)
                # Do not prepare a statement twice, not even within one batch. A statement that
                # writes several rows is sent once for each row.
                if name not in prepared and name not in expected:
                    connection.send_prepare(name, statement.encode())
                    expected.append(name)
                connection.send_query_prepared(name, data, forms, BINARY)
            expected.append(b"")
        connection.pipeline_sync()
        return connection.flush() == 0

    def flush(self) -> bool:
        """Send the rest of the data; return whether all data has been sent."""
        return self._connection.flush() == 0

    def read(self) -> bool:
        """Read the data that has arrived; return whether all replies are complete."""
        connection = self._connection
        lost: OperationalError | None = None
        try:
            connection.consume_input()
        except OperationalError as error:
            lost = error  # the server's last message may already have arrived
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
        """Process the reply to a request, or to the preparation of one."""
        number, status = self._number, result.status
        self._number = number + 1
        if status == _FATAL_ERROR:
            # When a connection ends, there may be more errors than requests.
            self.error = self.error or error_from_result(result)
        elif status == _PIPELINE_ABORTED:
            return
        elif not (name := self._expected[number]):
            self.answers.append(rows_in(result) if status == _TUPLES_OK else [])
        elif self._prepared is not None:
            self._prepared.add(name)


@lru_cache(maxsize=1024)
def name_of(statement: str) -> bytes:
    """Return the name under which a statement is prepared; the same text has the same name."""
    return b"lockfast_" + hashlib.blake2b(statement.encode(), digest_size=8).hexdigest().encode()
