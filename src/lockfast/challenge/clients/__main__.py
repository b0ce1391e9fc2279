"""`python -m lockfast.challenge.clients PARENT`: what all clients of a run are forked from.

Its standard input is the socket by which the run asks it.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from lockfast.challenge.clients.diary import Diary, note
from lockfast.challenge.clients.fork_server import ForkServer
from lockfast.challenge.clients.playing import Player
from lockfast.challenge.clients.signals import Signals
from lockfast.challenge.contender import made_by
from lockfast.challenge.resource import ResourceClient
from lockfast.challenge.workloads import WORKLOADS

if TYPE_CHECKING:
    from lockfast.challenge.clients.order import Order

SETTLING = 5.0
"""How long what ends in the background may take, after all was closed."""


def main(parent: int) -> None:
    """Be the fork server, and in each client do as ordered, until SIGTERM."""
    play(ForkServer(socket.socket(fileno=sys.stdin.fileno()), parent=parent).serve())


def play(order: Order) -> None:
    """Be the client, and say at the end what it had in hand."""
    signals = Signals()
    diary = Diary(Path(order.diary), client=order.client)
    writes = WORKLOADS[order.workload].writes
    resource = ResourceClient(order.resource) if writes else None
    make = made_by(order.make)
    before = in_hand()
    with make(order.url, ttl=order.ttl, clock_ahead=order.clock_ahead) as contender:
        Player(order, contender, diary=diary, signals=signals, resource=resource).play()
        in_use = in_hand()
    after = settled(before)
    note(
        Path(order.last_words),
        descriptors=(before[0], after[0]),
        threads=(before[1], after[1]),
        in_use=in_use,
    )


def in_hand() -> tuple[int, int]:
    """Return how many descriptors are open and how many threads there are."""
    # The listing itself is one of them.
    return len(os.listdir("/dev/fd")) - 1, threading.active_count()  # noqa: PTH208 - closed at once


def settled(before: tuple[int, int]) -> tuple[int, int]:
    """Return the same once it is no more than before, or when it will not be."""
    deadline = time.monotonic() + SETTLING
    while time.monotonic() < deadline:
        descriptors, threads = in_hand()
        if descriptors <= before[0] and threads <= before[1]:
            break
        time.sleep(0.01)
    return in_hand()


if __name__ == "__main__":
    main(int(sys.argv[1]))
