"""Lock names: any Unicode text, compared byte by byte, and never part of a command."""

from __future__ import annotations

import inspect
import re
import string
from types import FunctionType
from typing import TYPE_CHECKING, Literal

from lockfast.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

# Mistakes with decorators: the decorator is not called (`@locks.locked`), or decorates a generator.

GeneratorKind = Literal["generator", "async generator"]


def is_bare(given: object, *, caller: FrameType) -> bool:
    """Return whether the given function is the one that the caller is decorating.

    A function that computes names is passed as an argument too. But only a function that is being
    decorated is defined in the caller's own code, around the line that the caller is executing.
    """
    function = inspect.unwrap(given) if callable(given) else given
    if not isinstance(function, FunctionType) or function.__name__ == "<lambda>":
        return False
    code = function.__code__
    last = max((line for _, _, line in code.co_lines() if line), default=code.co_firstlineno)
    # Compare code objects by identity, because two functions with the same source on the same line
    # compare equal.
    is_written_there = any(code is one for one in caller.f_code.co_consts)
    return is_written_there and code.co_firstlineno <= (caller.f_lineno or 0) <= last


def locked_without_name(function: object) -> ConfigurationError:
    """Return the error for a decorator that was not called, with the right spelling."""
    name = getattr(function, "__name__", "name")
    return ConfigurationError(
        f"locked needs a name: write @locks.locked({name!r}), or a name that the arguments "
        "fill, as in 'order:{order_id}'"
    )


def generator_kind(function: Callable[..., object]) -> GeneratorKind | None:
    """Return which kind of generator function this is; None if it is no generator function."""
    call = getattr(type(function), "__call__", None)  # noqa: B004 - the attribute itself is needed
    for one in (function, call):
        if inspect.isgeneratorfunction(one):
            return "generator"
        if inspect.isasyncgenfunction(one):
            return "async generator"
    return None


def decorated_generator(name: str, kind: GeneratorKind) -> ConfigurationError:
    """Return the error for a decorated generator, which no lock can decorate, sync or asyncio."""
    block = "with" if kind == "generator" else "async with"
    client = "lockfast.Locks" if kind == "generator" else "lockfast.AsyncLocks"
    article = "a" if kind == "generator" else "an"
    return ConfigurationError(
        f"{name} is {article} {kind}: its body runs after the call has returned, so no lock can "
        f"decorate it. Write `{block} locks.lock(...):` inside it, with a client of {client}, or "
        "decorate a function that returns all items at once"
    )


NAME_MAX_BYTES = 512
_NAMESPACE = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
_FIELD = re.compile(r"\{[A-Za-z_]\w*(?:\.\w+|\[\w+\])*(?:![rsa])?(?::[^{}]*)?\}")


def checked_name(name: str) -> str:
    """Return the name, without normalisation or case folding; raise if it is not valid."""
    # In the common case, avoid encoding the name: a character has at most four bytes.
    if name.__class__ is str and 0 < len(name) <= NAME_MAX_BYTES // 4 and name.isascii():
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
    if size > NAME_MAX_BYTES:
        raise ConfigurationError(
            f"the name {name[:40]!r}… has {size} bytes of UTF-8; "
            f"at most {NAME_MAX_BYTES} are accepted"
        )
    return name


def unfilled_field(name: str) -> str | None:
    """Return the first `{field}` in the name, which suggests an f-string without its `f`.

    A name that consists of a single field is not reported, because it looks like a Redis hash tag.
    """
    found = _FIELD.search(name)
    return None if found is None or found[0] == name else found[0]


def checked_prefix(prefix: str) -> str:
    """Return a prefix of names; raise unless it is empty or itself a valid name."""
    return prefix if prefix == "" else checked_name(prefix)


def checked_namespace(namespace: str) -> str:
    """Return the namespace, which must be plain text because it becomes part of keys."""
    if not isinstance(namespace, str):
        raise TypeError(f"the namespace is a str, not {type(namespace).__name__}")
    if not _NAMESPACE.fullmatch(namespace):
        raise ConfigurationError(
            f"namespace {namespace!r}: 1 to 64 letters, digits or any of _ . : - are accepted"
        )
    return namespace


def storage_key(namespace: str, name: str) -> bytes:
    """Return the bytes under which a record store keeps the name.

    A namespace never contains a zero byte, so no two pairs share a key.
    """
    return f"{namespace}\0{name}".encode()


def name_of(key: bytes) -> str:
    """Return the name from which `storage_key` made this key."""
    return key.partition(b"\0")[2].decode()


def name_for_call(
    template: str | Callable[..., str], function: Callable[..., object]
) -> Callable[..., str]:
    """Return a function that computes the lock's name from the arguments of a call.

    A template such as "order:{order_id}" is filled with the call's arguments by name, defaults
    included; unknown fields are refused when the function is decorated.
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
