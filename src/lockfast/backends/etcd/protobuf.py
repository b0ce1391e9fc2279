"""Protocol Buffers, as much of them as etcd's messages need: packed and read by hand; pure.

Fields that are zero or empty are left out, as proto3 has it. Groups, which nobody writes any more,
are refused like any other nonsense.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

M = TypeVar("M", bound="tuple[Any, ...]")

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MODULUS = 1 << 64

Value = int | bytes
"""What stands in a field: a number, or bytes, which may be a text or a message."""


class Unreadable(ValueError):
    """These bytes are no message."""


# -- packing ---------------------------------------------------------------------------


_ONE_GROUP = [bytes((number,)) for number in range(0x80)]


def varint(number: int) -> bytes:
    """Return the number in groups of seven bits; a negative one as int64 has it."""
    if 0 <= number < 0x80:  # noqa: PLR2004 - most are
        return _ONE_GROUP[number]
    if 0 <= number < 0x4000:  # noqa: PLR2004 - and most others have two
        return bytes((number & 0x7F | 0x80, number >> 7))
    number %= _MODULUS
    groups = bytearray()
    while number >= 0x80:  # noqa: PLR2004
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)


# What begins most fields is looked up: a cycle of a lock packs fifty of them, and to build each
# anew took a tenth of its time.
_NUMBERS = [varint(field << 3 | _VARINT) for field in range(16)]
_SHORT = [[varint(field << 3 | _BYTES) + size for size in _ONE_GROUP] for field in range(16)]


def number_field(field: int, number: int) -> bytes:
    """Return a field with a number, a bool or an enum; nothing for zero."""
    if not number:
        return b""
    key = _NUMBERS[field] if field < 16 else varint(field << 3 | _VARINT)  # noqa: PLR2004
    return key + varint(number)


def bytes_field(field: int, data: bytes) -> bytes:
    """Return a field with bytes or a text; nothing if there are none."""
    return message_field(field, data) if data else b""


def message_field(field: int, message: bytes) -> bytes:
    """Return a field with a message, which may be empty and says something all the same."""
    size = len(message)
    if field < 16 and size < 0x80:  # noqa: PLR2004 - most are
        return _SHORT[field][size] + message
    return varint(field << 3 | _BYTES) + varint(size) + message


# -- reading ---------------------------------------------------------------------------


def fields(data: bytes) -> Iterator[tuple[int, Value]]:
    """Yield the number and the value of each field, in the order in which they stand."""
    at, end = 0, len(data)
    while at < end:
        # Most numbers have one group: they are read here, as a call would take longer.
        key, at = data[at], at + 1
        if key >= 0x80:  # noqa: PLR2004
            key, at = _varint(data, at - 1)
        kind = key & 7
        if kind in (_VARINT, _BYTES):
            if at >= end:
                raise Unreadable("the message ends in the middle of a field")
            number, at = data[at], at + 1
            if number >= 0x80:  # noqa: PLR2004
                number, at = _varint(data, at - 1)
            if kind == _VARINT:
                yield key >> 3, number
                continue
            size = number
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise Unreadable(f"a field of kind {kind}")
        if at + size > end:
            raise Unreadable("a field is longer than its message")
        yield key >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    try:
        while True:
            group = data[at]
            at += 1
            number |= (group & 0x7F) << shift
            if group < 0x80:  # noqa: PLR2004 - the last one
                return number % _MODULUS, at
            shift += 7
            if shift > 63:  # noqa: PLR2004 - ten groups hold 64 bits
                raise Unreadable("a number is longer than 64 bits")
    except IndexError:
        raise Unreadable("the message ends in the middle of a number") from None


class Field:
    """How one field of an answer is called, and what is made of its value."""

    __slots__ = ("is_repeated", "name", "read")

    def __init__(
        self, name: str, read: Callable[[Value], object], *, is_repeated: bool = False
    ) -> None:
        self.name: str = name
        self.read: Callable[[Value], object] = read
        self.is_repeated: bool = is_repeated


class Reading(Generic[M]):
    """How a message is read: as a tuple with names, by the fields that are known.

    Fields that are not are from a newer server. It reads the message where it stands in another
    one, too.
    """

    __slots__ = ("_defaults", "_kind", "_known")

    def __init__(self, kind: type[M], known: Mapping[int, Field]) -> None:
        names: tuple[str, ...] = kind._fields  # type: ignore[attr-defined]  # all have names
        self._kind = kind
        self._defaults = list(kind())
        self._known = {
            number: (names.index(one.name), one.read, one.is_repeated)
            for number, one in known.items()
        }

    def __call__(self, data: Value) -> M:
        """Return the message, or raise Unreadable."""
        # By their places and not by their names, which takes half as long again; and what is
        # repeated in a list, as a tuple that grows takes the square of their number.
        values = self._defaults.copy()
        lists: dict[int, list[object]] = {}
        for number, value in fields(raw(data)):
            known = self._known.get(number)
            if known is None:
                continue
            at, read, is_repeated = known
            if is_repeated:
                lists.setdefault(at, []).append(read(value))
            else:
                values[at] = read(value)
        for at, found in lists.items():
            values[at] = tuple(found)
        return tuple.__new__(self._kind, values)


# -- what is made of a value -----------------------------------------------------------


def whole(value: Value) -> int:
    """Return an unsigned number."""
    if not isinstance(value, int):
        raise Unreadable("bytes where a number should be")
    return value


def signed(value: Value) -> int:
    """Return an int64."""
    number = whole(value)
    return number - _MODULUS if number >> 63 else number


def truth(value: Value) -> bool:
    """Return a bool."""
    return bool(whole(value))


def raw(value: Value) -> bytes:
    """Return bytes."""
    if isinstance(value, int):
        raise Unreadable("a number where bytes should be")
    return value


def text(value: Value) -> str:
    """Return a text; what is not UTF-8 is shown as such."""
    return raw(value).decode(errors="replace")
