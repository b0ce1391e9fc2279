"""How the values of a statement are encoded for the server."""

from __future__ import annotations

from enum import IntEnum, StrEnum

import pytest

from lockfast.backends.postgresql.exchange import BINARY, TEXT, encoded


class Number(IntEnum):
    THREE = 3


class Word(StrEnum):
    DOOR = "door"


@pytest.mark.parametrize(
    ("value", "data", "form"),
    [
        ("é", "é".encode(), TEXT),
        ("a\0b", b"a\0b", BINARY),  # as text it would end at the zero byte
        (b"a\0b", b"a\0b", BINARY),
        (2**53, b"9007199254740992", TEXT),
        (0.1 + 0.2, b"0.30000000000000004", TEXT),
        (None, None, TEXT),
        (True, b"t", TEXT),
        (False, b"f", TEXT),
        (Number.THREE, b"3", TEXT),
        (Word.DOOR, b"door", TEXT),
    ],
)
def test_a_value_keeps_all_it_says(value, data, form) -> None:
    assert encoded([value, 1]) == ([data, b"1"], [form, TEXT])
