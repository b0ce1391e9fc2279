"""One worker of the demo's overselling, which Prometheus can scrape.

It is the demo's own worker, with a hook. It writes its port into the story's folder, and can be
scraped after its last sale, until the director has ended.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

from prometheus_client import start_http_server

from lockfast import Locks, observe
from lockfast.cli.demo import crew, oversell


def main(me: str, folder: Path, name: str, guarded: str) -> None:
    http, _ = start_http_server(0, addr="127.0.0.1")
    (folder / f"port of {me}").write_text(str(http.server_port))
    crew.Locks = partial(Locks, on_event=observe.prometheus())
    oversell.work(me, folder, name, guarded=bool(guarded))
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # the director reads until the pipe is closed
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
