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
    found: list[bytes | None] = []
    forms: list[int] = []
    for value in values:
        # In their own order: most are text, and each request pays for this.
        data: bytes | None
        if type(value) is str:
            data = value.encode()
            # As text it would end at a zero byte, and be another value. In this form the server
            # sees the whole of it, and refuses it.
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
    """Return what is a value by its ancestors, as members of an enumeration are."""
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
