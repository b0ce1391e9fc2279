"""The processes that play a story: started, set off together, listened to, cleared away.

A worker is a module of this package, run by the same Python. It writes one JSON object per
line; its times are of the monotonic clock, which all processes of a machine share.
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

from lockfast import LockError, Locks, urls
from lockfast.options import DEFAULT_TTL

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

LONGEST_PLAY = 25.0


class Worker:
    """One process, as the director sees it."""

    def __init__(self, name: str, process: subprocess.Popen[str]) -> None:
        self.name = name
        self._process = process

    def say(self, word: str) -> None:
        """Send the worker a line."""
        if self._process.stdin is not None:
            self._process.stdin.write(word + "\n")
            self._process.stdin.flush()

    def hear(self, did: str) -> dict[str, Any]:
        """Return the next thing the worker tells, which has to be this one."""
        heard = next(self.tales(), None)
        if heard is None or heard["did"] != did:
            raise LockError(f"the demo's {self.name} ended before it was {did}")
        return heard

    def tales(self) -> Iterator[dict[str, Any]]:
        """Yield what the worker tells, until it has ended."""
        if self._process.stdout is not None:
            for line in self._process.stdout:
                yield json.loads(line)

    def freeze(self) -> float:
        """Stop the process in the middle of what it does; return when it stood still."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitpid(self._process.pid, os.WUNTRACED)
        return time.monotonic()

    def thaw(self) -> float:
        """Let it go on; return when."""
        self._process.send_signal(signal.SIGCONT)
        return time.monotonic()

    def end(self) -> None:
        """Wait for the worker's end; one that failed has said why on stderr."""
        if self._process.wait() != 0:
            raise LockError(f"the demo's {self.name} failed, see above")

    def kill(self) -> None:
        """End the process; whoever listens to it hears nothing more."""
        self._process.kill()

    def clear_away(self) -> None:
        """Make sure that nothing of it is left."""
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait()


class Crew:
    """Workers that begin together; leaving the block clears them away."""

    def __init__(
        self, module: str, names: list[str], arguments: list[str], *, url: str | None
    ) -> None:
        self._module = module
        self._names = names
        self._arguments = arguments
        # Not an argument: everybody can read those in the list of processes.
        self._environment = {**os.environ, urls.VARIABLE: urls.resolved_url(url)}
        self._workers: list[Worker] = []
        # A worker that hangs would hang the demo: after this long its pipe ends instead.
        self._alarm = threading.Timer(LONGEST_PLAY, self._kill)
        self._alarm.daemon = True

    def __enter__(self) -> list[Worker]:
        self._alarm.start()
        try:
            for name in self._names:
                self._workers.append(self._start(name))
            for worker in self._workers:
                worker.hear("ready")
        except BaseException:
            self._clear_away()
            raise
        return self._workers

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._clear_away()

    def _start(self, name: str) -> Worker:
        process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", self._module, name, *self._arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self._environment,
            text=True,
        )
        return Worker(name, process)

    def _kill(self) -> None:
        for worker in self._workers:
            worker.kill()

    def _clear_away(self) -> None:
        self._alarm.cancel()
        for worker in self._workers:
            worker.clear_away()


def played(
    module: str, names: list[str], arguments: list[str], *, url: str | None
) -> tuple[list[tuple[str, dict[str, Any]]], float]:
    """Set all workers off, and return what each told until its end, and how long it took."""
    with Crew(module, names, arguments, url=url) as workers:
        started = time.monotonic()
        for worker in workers:
            worker.say("go")
        told = [(worker.name, one) for worker in workers for one in worker.tales()]
        for worker in workers:
            worker.end()
        return told, time.monotonic() - started


# What a worker says and hears.


def enter_stage(me: str, *, ttl: float = DEFAULT_TTL) -> Locks:
    """Return the worker's client, on the store that the director chose."""
    # What befalls a lease is what the story shows; the log would tell it a second time.
    logging.getLogger("lockfast").addHandler(logging.NullHandler())
    return Locks(namespace="lockfast-demo", label=me, ttl=ttl)


def tell(did: str, **facts: object) -> None:
    """Tell the director something."""
    print(json.dumps({"did": did, **facts}), flush=True)


def await_word() -> None:
    """Wait for the director's word."""
    if not sys.stdin.readline():
        # The director is gone, and so is the reason to go on.
        sys.exit(1)
