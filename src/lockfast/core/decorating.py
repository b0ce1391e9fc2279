"""Mistakes with decorators: one written without its call (`@locks.locked`), or on a generator."""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import TYPE_CHECKING, Literal

from lockfast.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

GeneratorKind = Literal["generator", "async generator"]


def is_bare(given: object, *, caller: FrameType) -> bool:
    """Whether the function given is one that the caller is just decorating.

    A function that makes names is given in the same way. But only what is being decorated was
    written in the caller's own code around the very line where the caller is.
    """
    function = inspect.unwrap(given) if callable(given) else given
    if not isinstance(function, FunctionType) or function.__name__ == "<lambda>":
        return False
    code = function.__code__
    last = max((line for _, _, line in code.co_lines() if line), default=code.co_firstlineno)
    # By identity: two functions of the same words on the same line are equal.
    is_written_there = any(code is one for one in caller.f_code.co_consts)
    return is_written_there and code.co_firstlineno <= (caller.f_lineno or 0) <= last


def locked_without_name(function: object) -> ConfigurationError:
    """Return what is raised then, with the right spelling."""
    name = getattr(function, "__name__", "name")
    return ConfigurationError(
        f"locked needs a name: write @locks.locked({name!r}), or a name that the arguments "
        "fill, as in 'order:{order_id}'"
    )


def generator_kind(function: Callable[..., object]) -> GeneratorKind | None:
    """Return which kind of generator function it is, or None."""
    call = getattr(type(function), "__call__", None)  # noqa: B004 - what it is, not whether
    for one in (function, call):
        if inspect.isgeneratorfunction(one):
            return "generator"
        if inspect.isasyncgenfunction(one):
            return "async generator"
    return None


def decorated_generator(name: str, kind: GeneratorKind) -> ConfigurationError:
    """Return what is raised for one, in either flavour: no lock can decorate it."""
    block = "with" if kind == "generator" else "async with"
    client = "lockfast.Locks" if kind == "generator" else "lockfast.AsyncLocks"
    article = "a" if kind == "generator" else "an"
    return ConfigurationError(
        f"{name} is {article} {kind}: its body runs after the call has returned, so no lock can "
        f"decorate it. Write `{block} locks.lock(...):` inside it, with a client of {client}, or "
        "decorate a function that returns all items at once"
    )
