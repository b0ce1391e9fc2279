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
from lockfast_challenge.contender import is_closed_at_end, made_by, opened
from lockfast_challenge.outcome import WORKLOADS
from lockfast_challenge.resource import ResourceClient

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    in_use = OpenInUse()
    with opened(make, order.url, ttl=order.ttl, clock_ahead=order.clock_ahead) as contender:
        player = Player(order, contender, diary=diary, signals=signals, resource=resource)
        player.play(after_turn=in_use.look)
    if is_closed_at_end(make):
        after = settled(before)
        note(
            Path(order.last_words),
            descriptors=(before[0], after[0]),
            threads=(before[1], after[1]),
            in_use=in_use.quarters(),
            turns=in_use.turns,
        )
    signals.ignore_interrupts()


def open_counts() -> tuple[int, int]:
    """Return the number of open descriptors and the number of threads."""
    # The listing itself opens one descriptor, which is not counted.
    return len(os.listdir("/dev/fd")) - 1, threading.active_count()  # noqa: PTH208 - closed at once


STRETCHES_KEPT = 64
"""The most stretches of turns that are kept; twice as many are merged in pairs."""

Counts = tuple[int, int]


class OpenInUse:
    """The numbers of descriptors and threads after each turn, while the client is open."""

    def __init__(self) -> None:
        self._stretches: list[tuple[Counts, Counts]] = []
        """The least and the largest counts of each stretch of turns, which have one length."""
        self._length = 1
        self.turns: int = 0

    def look(self) -> None:
        """Count after one more turn."""
        try:
            now = open_counts()
        except OSError:
            return  # a fault has used up the descriptors, so none is left for counting
        if self.turns % self._length:
            self._stretches[-1] = _together([self._stretches[-1], (now, now)])
        else:
            self._stretches.append((now, now))
        self.turns += 1
        is_full = len(self._stretches) == 2 * STRETCHES_KEPT
        if is_full and self.turns % self._length == 0:
            pairs = zip(self._stretches[::2], self._stretches[1::2], strict=True)
            self._stretches = [_together(pair) for pair in pairs]
            self._length *= 2

    def quarters(self) -> list[tuple[Counts, Counts]]:
        """Return the least and the largest counts of each quarter of the turns.

        The result is empty if there were too few turns.
        """
        size = len(self._stretches) // 4
        last = self._stretches[-4 * size :] if size else []
        return [_together(last[at : at + size]) for at in range(0, len(last), size or 1)]


def _together(stretches: Sequence[tuple[Counts, Counts]]) -> tuple[Counts, Counts]:
    least, most = zip(*stretches, strict=True)
    (descriptors, threads), (most_descriptors, most_threads) = (
        tuple(map(min, zip(*least, strict=True))),
        tuple(map(max, zip(*most, strict=True))),
    )
    return (descriptors, threads), (most_descriptors, most_threads)


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
