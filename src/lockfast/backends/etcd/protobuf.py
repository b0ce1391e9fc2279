"""Protocol Buffers, as far as etcd's messages need them, packed and read by hand; pure.

Fields that are zero or empty are left out, as in proto3. Groups, which nobody writes any more, are
refused like any other malformed data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

M = TypeVar("M", bound="tuple[Any, ...]")

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MODULUS = 1 << 64

Value = int | bytes
"""The value of a field: a number, or bytes, which may be a text or a message."""


class UnreadableMessage(ValueError):
    """These bytes are not a message."""


# -- packing ---------------------------------------------------------------------------


_ONE_GROUP = [bytes((number,)) for number in range(0x80)]


def varint(number: int) -> bytes:
    """Return the number in groups of seven bits; a negative number is encoded as an int64."""
    if 0 <= number < 0x80:  # noqa: PLR2004 - most numbers have one group
        return _ONE_GROUP[number]
    if 0 <= number < 0x4000:  # noqa: PLR2004 - most others have two groups
        return bytes((number & 0x7F | 0x80, number >> 7))
    number %= _MODULUS
    groups = bytearray()
    while number >= 0x80:  # noqa: PLR2004
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)


# The beginnings of most fields are looked up in tables. One lock cycle packs fifty fields, and
# building their beginnings took a tenth of the cycle's time.
_NUMBERS = [varint(field << 3 | _VARINT) for field in range(16)]
_SHORT = [[varint(field << 3 | _BYTES) + size for size in _ONE_GROUP] for field in range(16)]


def number_field(field: int, number: int) -> bytes:
    """Return a field with a number, a bool or an enum; empty for zero."""
    if not number:
        return b""
    key = _NUMBERS[field] if field < 16 else varint(field << 3 | _VARINT)  # noqa: PLR2004
    return key + varint(number)


def bytes_field(field: int, data: bytes) -> bytes:
    """Return a field with bytes or a text; empty for an empty value."""
    return message_field(field, data) if data else b""


def message_field(field: int, message: bytes) -> bytes:
    """Return a field with a message; an empty message is written too, because it has a meaning."""
    size = len(message)
    if field < 16 and size < 0x80:  # noqa: PLR2004 - most fields are short
        return _SHORT[field][size] + message
    return varint(field << 3 | _BYTES) + varint(size) + message


# -- reading ---------------------------------------------------------------------------


def fields(data: bytes) -> Iterator[tuple[int, Value]]:
    """Yield the number and the value of each field, in the order of the message."""
    at, end = 0, len(data)
    while at < end:
        # Most numbers have one group. Those numbers are read inline, because a call would take
        # longer.
        key, at = data[at], at + 1
        if key >= 0x80:  # noqa: PLR2004
            key, at = _varint(data, at - 1)
        kind = key & 7
        if kind in (_VARINT, _BYTES):
            if at >= end:
                raise UnreadableMessage("the message ends in the middle of a field")
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
            raise UnreadableMessage(f"a field of kind {kind}")
        if at + size > end:
            raise UnreadableMessage("a field is longer than its message")
        yield key >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    try:
        while True:
            group = data[at]
            at += 1
            number |= (group & 0x7F) << shift
            if group < 0x80:  # noqa: PLR2004 - the last group
                return number % _MODULUS, at
            shift += 7
            if shift > 63:  # noqa: PLR2004 - ten groups hold 64 bits
                raise UnreadableMessage("a number is longer than 64 bits")
    except IndexError:
        raise UnreadableMessage("the message ends in the middle of a number") from None


class Field:
    """The name of one field of a reply, and the function that reads its value."""

    __slots__ = ("is_repeated", "name", "read")

    def __init__(
        self, name: str, read: Callable[[Value], object], *, is_repeated: bool = False
    ) -> None:
        self.name: str = name
        self.read: Callable[[Value], object] = read
        self.is_repeated: bool = is_repeated


class Reading(Generic[M]):
    """Reads a message into a named tuple, by its known fields.

    Unknown fields come from a newer server and are skipped. A Reading also reads a message that is
    nested in another message.
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
        """Return the message, or raise UnreadableMessage."""
        # Fields are set by position, because setting them by name takes half as long again.
        # Repeated fields are collected in a list, because a growing tuple takes quadratic time.
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


# -- readers of a value ----------------------------------------------------------------


def whole(value: Value) -> int:
    """Return an unsigned number."""
    if not isinstance(value, int):
        raise UnreadableMessage("bytes where a number should be")
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
        raise UnreadableMessage("a number where bytes should be")
    return value


def text(value: Value) -> str:
    """Return a text; invalid UTF-8 is replaced."""
    return raw(value).decode(errors="replace")
