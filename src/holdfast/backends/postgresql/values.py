"""Values as the server takes them, and its rows as values."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from psycopg.pq.abc import PGresult

Rows: TypeAlias = list[tuple[Any, ...]]

TEXT, BINARY = 0, 1


def encoded(values: Sequence[object]) -> tuple[list[bytes | None], list[int]]:
    """Return the values and the format of each; what they are is said by the statement."""
    pairs = [_encoded(one) for one in values]
    return [data for data, _ in pairs], [form for _, form in pairs]


def _encoded(value: object) -> tuple[bytes | None, int]:
    if value is None:
        return None, TEXT
    if isinstance(value, bytes):
        return value, BINARY
    if isinstance(value, bool):
        return (b"t" if value else b"f"), TEXT
    if isinstance(value, int | float):
        return repr(value).encode(), TEXT  # repr gives every digit of a float
    data = str(value).encode()
    # As text it would end at a zero byte, and be another value. In this form the server sees
    # the whole of it, and refuses it.
    return data, BINARY if b"\0" in data else TEXT


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
    decoders = [_DECODERS.get(result.ftype(i), bytes) for i in range(result.nfields)]
    return [
        tuple(
            None if (data := result.get_value(row, i)) is None else decode(data)
            for i, decode in enumerate(decoders)
        )
        for row in range(result.ntuples)
    ]
