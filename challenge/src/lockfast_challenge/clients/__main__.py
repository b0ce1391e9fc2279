"""`python -m lockfast_challenge.clients PARENT`: the fork server for all clients of a run.

Its standard input is the socket on which the run sends its requests.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from lockfast_challenge.clients.diary import Diary, note
from lockfast_challenge.clients.fork_server import ForkServer
from lockfast_challenge.clients.player import ClientSignals, Player
from lockfast_challenge.contender import made_by
from lockfast_challenge.outcome import WORKLOADS
from lockfast_challenge.resource import ResourceClient

if TYPE_CHECKING:
    from lockfast_challenge.clients.fork_server import Order

SETTLE_SECONDS = 5.0
"""How long background work may take to end after everything was closed, in seconds."""


def main(parent: int) -> None:
    """Serve as the fork server; in each forked client, carry out its order until SIGTERM."""
    play(ForkServer(socket.socket(fileno=sys.stdin.fileno()), parent=parent).serve())


def play(order: Order) -> None:
    """Run one client; at the end, record its numbers of descriptors and threads."""
    signals = ClientSignals()
    diary = Diary(Path(order.diary), client=order.client)
    writes = WORKLOADS[order.workload].writes
    resource = ResourceClient(order.resource) if writes else None
    make = made_by(order.make)
    before = open_counts()
    with make(order.url, ttl=order.ttl, clock_ahead=order.clock_ahead) as contender:
        Player(order, contender, diary=diary, signals=signals, resource=resource).play()
        in_use = open_counts()
    after = settled(before)
    note(
        Path(order.last_words),
        descriptors=(before[0], after[0]),
        threads=(before[1], after[1]),
        in_use=in_use,
    )
    signals.ignore_interrupts()


def open_counts() -> tuple[int, int]:
    """Return the number of open descriptors and the number of threads."""
    # The listing itself opens one descriptor, which is not counted.
    return len(os.listdir("/dev/fd")) - 1, threading.active_count()  # noqa: PTH208 - closed at once


def settled(before: tuple[int, int]) -> tuple[int, int]:
    """Return the counts as soon as none is larger than before, or after SETTLE_SECONDS."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < deadline:
        descriptors, threads = open_counts()
        if descriptors <= before[0] and threads <= before[1]:
            break
        time.sleep(0.01)
    return open_counts()


if __name__ == "__main__":
    main(int(sys.argv[1]))
