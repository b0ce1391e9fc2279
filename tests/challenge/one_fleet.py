"""One client whose lock does nothing, in a process that also forks: `one_fleet.py FOLDER`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from lockfast_challenge.clients.fleet import Fleet
from lockfast_challenge.clients.fork_server import Order


def order(
    client: str, diary: Path, last_words: Path, *, make: str = "challenge.odd_contenders:LetsAllIn"
) -> Order:
    """Return the order for a client that needs no server."""
    return Order(client, make, "x", ("n",), "lock", 1.0, 1, str(diary), str(last_words), "")


if __name__ == "__main__":
    with Fleet(1, Path(sys.argv[1]), lambda _, *rest: order(*rest)):
        child = os.fork()
        if child:
            print(child, flush=True)  # noqa: T201
        signal.pause()
