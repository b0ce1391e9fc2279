"""Names of locks: any Unicode, compared byte by byte, never part of a command language."""

from __future__ import annotations

import inspect
import re
import string
from typing import TYPE_CHECKING

from lockfast.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST = 512
_NAMESPACE = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
_FIELD = re.compile(r"\{[A-Za-z_]\w*(?:\.\w+|\[\w+\])*(?:![rsa])?(?::[^{}]*)?\}")


def checked_name(name: str) -> str:
    """Return the name as it is, or refuse it: no normalisation, no case folding."""
    # The common case in one comparison: a character is at most four bytes.
    if name.__class__ is str and 0 < len(name) <= LONGEST // 4 and name.isascii():
        return name
    if not isinstance(name, str):
        raise TypeError(f"the name of a lock is a str, not {type(name).__name__}")
    if not name:
        raise ConfigurationError("the name of a lock must not be empty")
    try:
        size = len(name.encode())
    except UnicodeEncodeError as error:
        message = f"the name {name!r} holds a lone surrogate and has no UTF-8 form"
        raise ConfigurationError(message) from error
    if size > LONGEST:
        raise ConfigurationError(
            f"the name {name[:40]!r}… has {size} bytes of UTF-8; at most {LONGEST} are accepted"
        )
    return name


def unfilled_field(name: str) -> str | None:
    """Return the first `{field}` in the name, as an f-string without its `f` leaves it.

    A name that is nothing else counts as filled: a Redis hash tag looks the same.
    """
    found = _FIELD.search(name)
    return None if found is None or found[0] == name else found[0]


def checked_prefix(prefix: str) -> str:
    """Return what names may begin with: nothing, or what could be a name."""
    return prefix if prefix == "" else checked_name(prefix)


def checked_namespace(namespace: str) -> str:
    """Return the namespace, or refuse it: it stands inside keys, so it is kept plain."""
    if not isinstance(namespace, str):
        raise TypeError(f"the namespace is a str, not {type(namespace).__name__}")
    if not _NAMESPACE.fullmatch(namespace):
        raise ConfigurationError(
            f"namespace {namespace!r}: 1 to 64 letters, digits or any of _ . : - are accepted"
        )
    return namespace


def storage_key(namespace: str, name: str) -> bytes:
    """Return the bytes under which a record store keeps the name.

    A namespace never holds a zero byte, so no two pairs share a key.
    """
    return f"{namespace}\0{name}".encode()


def name_of(key: bytes) -> str:
    """Return the name that `storage_key` hid in the key."""
    return key.partition(b"\0")[2].decode()


def name_for_call(
    template: str | Callable[..., str], function: Callable[..., object]
) -> Callable[..., str]:
    """Return what computes the lock's name from the arguments of a call of `function`.

    A template such as "order:{order_id}" is filled with the call's arguments by name,
    defaults included; unknown fields are refused when the function is decorated.
    """
    if callable(template):
        return template
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as error:
        raise ConfigurationError(f"{template!r} is no template: {error}") from error
    fields = {field for _, field, _, _ in parts if field is not None}
    if not fields:
        return lambda *_args, **_kwargs: template
    signature = inspect.signature(function)
    unknown = sorted(
        field for field in fields if re.split(r"[.\[]", field)[0] not in signature.parameters
    )
    if unknown:
        raise ConfigurationError(
            f"{template!r} names {', '.join(unknown) or 'an unnamed field'}, but "
            f"{getattr(function, '__qualname__', function)} takes "
            f"{', '.join(signature.parameters) or 'no arguments'}"
        )

    def fill(*args: object, **kwargs: object) -> str:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return template.format(**bound.arguments)

    return fill
