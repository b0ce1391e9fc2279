"""Whether a message is an answer to what was asked; pure.

What can be read as a message may still not be what was asked for, from a proxy or from a server
that is not quite etcd. Whoever unpacks an answer relies on its shape, and would trip over another
one with an error that says nothing of the store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from lockfast.backends.etcd.answers import Granted, Ranged, Transacted, answer
from lockfast.backends.etcd.protobuf import Unreadable

if TYPE_CHECKING:
    from lockfast.backends.etcd.requests import Request

A = TypeVar("A")


def reply(request: Request[A], data: bytes) -> A:
    """Return the answer to a request, or raise Unreadable."""
    found = answer(request.answer, data)  # type: ignore[type-var]  # all are tuples
    _check(request, found)
    return found


def _check(request: Request[Any], found: object) -> None:
    if isinstance(found, Transacted):
        _check_branch(request.then if found.succeeded else request.otherwise, found)
    elif isinstance(found, Ranged):
        if request.most and len(found.keys) > request.most:
            raise Unreadable(f"{len(found.keys)} keys where {request.most} can be")
        if found.more and not found.keys:
            raise Unreadable("no keys, and more of them")
    elif isinstance(found, Granted) and (not found.lease or found.ttl <= 0):
        raise Unreadable("a lease without a number or without a time")


def _check_branch(asked: tuple[Request[Any], ...], found: Transacted) -> None:
    if len(found.answers) != len(asked):
        raise Unreadable(f"{len(found.answers)} answers to {len(asked)} operations")
    for request, one in zip(asked, found.answers, strict=True):
        if not isinstance(one, request.answer):
            raise Unreadable(
                f"not the answer to an operation: {request.answer.__name__} is missing"
            )
        _check(request, one)
