# Generated from src/lockfast/backends/redlock/_async/waiting.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""How waiting claims learn from the nodes that a name is free.

A node wakes one waiter at a time; see `scripts/waking.lua`. Any node may send the wakeup, so while
claims wait, one task or thread per node listens. There is nothing to check besides, because a
waiting claim asks a node every second.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockfast.backends.waiting._sync.inbox import WaitPolicy
from lockfast.backends.waiting.schedule import Timing
from lockfast.model import FOREVER

if TYPE_CHECKING:
    from lockfast.backends.redis.requests import RedisKeys
    from lockfast.backends.redlock.nodes_threads import Nodes
    from lockfast.backends.waiting._sync.inbox import Inbox, Receiver
    from lockfast.backends.waiting.listener_threads import AnyListener
    from lockfast.model import Claim


@dataclass(slots=True)
class RefusedClaim:
    """A refused claim, with the times when its wait began and when it last asked all nodes."""

    claim: Claim
    since: float
    looked_at: float
    opens_at: float = 0.0
    """When a majority of the nodes will be open again after a min_hold."""


class RedlockWaiting(WaitPolicy):
    """What Redlock brings to an inbox: a subscription at every node, and no checks."""

    timing = Timing(
        steady_seconds=FOREVER,
        together_seconds=0.0,
        names_per_check=1,
        subscribe_timeout=1.0,
        unsubscribed_poll_seconds=1.0,
    )

    def __init__(self, nodes: Nodes, keys: RedisKeys) -> None:
        self._nodes = nodes
        self._keys = keys
        self.sources = len(nodes.transports)

    def next_channel(self, channel: str, opened: int) -> str:
        # Keep one channel for life, because the other subscriptions have it too.
        del opened
        return channel or os.urandom(8).hex()

    def subscribe(self, receiver: Receiver, channel: str, *, deadline: float) -> AnyListener:
        transport, channel_name = self._nodes.transports[receiver.source], self._keys.inbox(channel)
        return transport.subscribe(channel_name, receiver.hear, deadline=deadline)

    def deliver(self, message: bytes, inbox: Inbox[RefusedClaim]) -> None:
        # Accept a message from any node, because the first node may not have received the release,
        # or may have notified nobody.
        inbox.hear(message.decode(errors="replace"))
