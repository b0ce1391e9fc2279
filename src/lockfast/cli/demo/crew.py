"""The worker processes of a story: starting them together, talking to them, cleaning up.

A worker is a module of this package, run by the same Python. It writes one JSON object per line;
its times are from the monotonic clock, which all processes of a machine share.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from lockfast import ConfigurationError, LockError, Locks, urls
from lockfast.options import DEFAULT_TTL

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

PLAY_MAX_SECONDS = 25.0


class DemoWorker:
    """One worker process, as the director sees it."""

    def __init__(self, name: str, process: subprocess.Popen[str]) -> None:
        self.name = name
        self._process = process

    def say(self, word: str) -> None:
        """Send the worker a line."""
        if self._process.stdin is not None:
            self._process.stdin.write(word + "\n")
            self._process.stdin.flush()

    def expect(self, did: str) -> dict[str, Any]:
        """Return the worker's next message, which must report that the worker `did` this."""
        message = next(self.messages(), None)
        if message is None or message["did"] != did:
            raise LockError(f"the demo's {self.name} ended before it was {did}")
        return message

    def messages(self) -> Iterator[dict[str, Any]]:
        """Yield the worker's messages until it has ended."""
        if self._process.stdout is not None:
            for line in self._process.stdout:
                yield json.loads(line)

    def freeze(self) -> float:
        """Stop the process in the middle of its work; return the time at which it had stopped."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitpid(self._process.pid, os.WUNTRACED)
        return time.monotonic()

    def thaw(self) -> float:
        """Resume the process; return the time at which it was resumed."""
        self._process.send_signal(signal.SIGCONT)
        return time.monotonic()

    def end(self) -> None:
        """Wait for the worker to end; raise if it failed (it has written the reason to stderr)."""
        if self._process.wait() != 0:
            raise LockError(f"the demo's {self.name} failed, see above")

    def kill(self) -> None:
        """Kill the process, which also ends its output."""
        self._process.kill()

    def clear_away(self) -> None:
        """Kill the process, close its pipes and wait for its end."""
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait()


class Crew:
    """Workers that begin together; leaving the block cleans them up."""

    def __init__(
        self, module: str, names: list[str], arguments: list[str], *, url: str | None
    ) -> None:
        self._module = module
        self._names = names
        self._arguments = arguments
        # The URL is not passed as an argument, because every user can read arguments in the process
        # list.
        self._environment = {**os.environ, urls.VARIABLE: urls.resolved_url(url)}
        self._workers: list[DemoWorker] = []
        # A worker that hangs would hang the demo. So all workers are killed after this time, which
        # also ends the pipes that the demo reads.
        self._timeout_timer = threading.Timer(PLAY_MAX_SECONDS, self._kill)
        self._timeout_timer.daemon = True

    def __enter__(self) -> list[DemoWorker]:
        self._timeout_timer.start()
        try:
            for name in self._names:
                self._workers.append(self._start(name))
            for worker in self._workers:
                worker.expect("ready")
        except BaseException:
            self._clean_up()
            raise
        return self._workers

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._clean_up()

    def _start(self, name: str) -> DemoWorker:
        process = subprocess.Popen(  # noqa: S603 - runs our own module
            [sys.executable, "-m", self._module, name, *self._arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self._environment,
            text=True,
        )
        return DemoWorker(name, process)

    def _kill(self) -> None:
        for worker in self._workers:
            worker.kill()

    def _clean_up(self) -> None:
        self._timeout_timer.cancel()
        for worker in self._workers:
            worker.clear_away()


def played(
    module: str, names: list[str], arguments: list[str], *, url: str | None
) -> tuple[list[tuple[str, dict[str, Any]]], float]:
    """Run all workers to their end; return their messages and the duration in seconds."""
    with Crew(module, names, arguments, url=url) as workers:
        started = time.monotonic()
        for worker in workers:
            worker.say("go")
        received = [(worker.name, one) for worker in workers for one in worker.messages()]
        for worker in workers:
            worker.end()
        return received, time.monotonic() - started


# The worker's side: its client, and its messages to and from the director.


def worker_client(me: str, *, ttl: float = DEFAULT_TTL) -> Locks:
    """Return the worker's client, on the store that the director chose."""
    # The story itself shows what happens to a lease, so the log would only repeat the story.
    logging.getLogger("lockfast").addHandler(logging.NullHandler())
    return Locks(namespace="lockfast-demo", label=me, ttl=ttl)


def send_message(did: str, **facts: object) -> None:
    """Send a message to the director."""
    print(json.dumps({"did": did, **facts}), flush=True)


def wait_for_director() -> None:
    """Wait for the next line from the director."""
    if not sys.stdin.readline():
        # The director has exited, so there is no reason to continue.
        sys.exit(1)


# Find the shortest ttl that a store accepts, because nobody wants to wait long for a lease to
# expire.

CANDIDATES = (1.0, 2.0, 5.0, 10.0)


def shortest_ttl(url: str | None) -> float:
    """Return the first of the candidates that the store accepts; sends no request to the store."""
    for ttl in CANDIDATES[:-1]:
        try:
            Locks(url, ttl=ttl).close()
        except ConfigurationError:
            continue
        return ttl
    return CANDIDATES[-1]
