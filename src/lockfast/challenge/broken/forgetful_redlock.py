"""Broken: nodes that restart empty give their votes a second time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import redis

from lockfast.challenge.broken.polling import (
    DELETE_IF_MINE,
    Lease,
    Polling,
    a_value_of_its_own,
    milliseconds,
)
from lockfast.challenge.contender import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class ForgetfulRedlock(Polling):
    """Redlock: whoever has set its value on most of the nodes, in time, holds the lock."""

    patience: float = 0.1

    def try_acquire(self, name: str) -> MajorityLease | None:
        """Ask each node once."""
        mine, sent = a_value_of_its_own(), time.monotonic()
        lease = MajorityLease(self, name, mine, sent=sent)
        if is_majority(self.servers, lambda node: self.vote(node, name, mine)):
            return lease  # whose time may be over already: then its first check says so
        lease.give_back()
        return None

    def vote(self, node: Any, name: str, mine: str) -> object:  # noqa: ANN401 - see connect
        """Ask this node for its vote."""
        return node.set(name, mine, nx=True, px=milliseconds(self.ttl))


class MajorityLease(Lease):
    """What was acquired, on most of the nodes."""

    def give_back(self) -> bool:
        """Delete it on every node; return whether most of them had it."""
        return is_majority(
            self.lock.servers, lambda node: node.eval(DELETE_IF_MINE, 1, self.name, self.value)
        )

    def release(self) -> None:
        """See the protocol."""
        if not self.give_back():
            raise Refused(f"{self.name} was no longer ours on most nodes")


def is_majority(nodes: Sequence[Any], ask: Callable[[Any], object]) -> bool:
    """Ask every node; return whether most of them said yes."""
    said_yes = 0
    for node in nodes:
        try:
            said_yes += bool(ask(node))
        except redis.RedisError:
            continue  # it may have done it or not: that is no vote
    return 2 * said_yes > len(nodes)
