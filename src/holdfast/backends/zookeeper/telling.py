"""What people are told of the nodes: who holds, what stays closed, who waits; pure but for time.

Ages are those of the nodes by the server's clock, against ours.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kazoo.exceptions import KazooException

from holdfast.backends.zookeeper import records
from holdfast.model import Closing, Held, Holder, Waiter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.backends.zookeeper.answers import Answer
    from holdfast.backends.zookeeper.nodes import Node


def held(nodes: Sequence[Node], answers: Sequence[Answer], *, place: int | None = None) -> Held:
    """Return the no to a claim, by what was read of those inside."""
    return Held(holders_of(nodes, answers), place, None, closing_of(nodes, answers))


def holders_of(nodes: Sequence[Node], answers: Sequence[Answer]) -> tuple[Holder, ...]:
    """Return who holds; those who have gone meanwhile are left out."""
    return tuple(
        Holder(
            owner=records.owner_in(data),
            token=stat.czxid,
            weight=node.weight,
            age=_age(stat.ctime),
            remaining=None,
        )
        for node, data, stat in _read(nodes, answers)
        if records.closed_for_in(data) is None
    )


def closing_of(nodes: Sequence[Node], answers: Sequence[Answer]) -> tuple[Closing, ...]:
    """Return what nobody holds any more, and stays closed: its node says so."""
    return tuple(
        Closing(records.owner_in(data), node.weight, max(0.0, seconds - _age(stat.mtime)))
        for node, data, stat in _read(nodes, answers)
        if (seconds := records.closed_for_in(data)) is not None
    )


def waiters_of(nodes: Sequence[Node], answers: Sequence[Answer]) -> tuple[Waiter, ...]:
    """Return who waits, in order."""
    return tuple(
        Waiter(records.owner_in(data), node.weight, place, _age(stat.ctime))
        for place, (node, data, stat) in enumerate(_read(nodes, answers), 1)
    )


def _read(nodes: Sequence[Node], answers: Sequence[Answer]) -> Iterator[tuple[Node, bytes, Answer]]:
    for node, answer in zip(nodes, answers, strict=True):
        if not isinstance(answer, KazooException):
            yield node, *answer


def _age(milliseconds: int) -> float:
    return max(0.0, time.time() - milliseconds / 1000)
