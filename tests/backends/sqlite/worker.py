"""A separate process for the tests: a puppet, or a hammer that is one of a crowd.

    worker.py puppet ADDRESS URL [OPTION=SECONDS …]
    worker.py hammer URL LOG NUMBER TTL NAME …

A puppet connects to the test, carries out its commands, and sends back results and exceptions. A
hammer takes names at random and logs each lease that it trusts. Each log line is a single write, so
that a kill cannot cut a line in two. A hammer stops when a file `enough` exists beside the log.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import pwd
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any

from puppets import seconds_of, serve

from lockfast import Lease, LeaseLost, Lock, Locks, Renewed


def now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Puppet:
    def __init__(self, address: str, url: str, **options: float) -> None:
        self._address = address
        self._renewals = 0
        self._locks = Locks(url, on_event=self._count, **options)
        self._leases: dict[str, Lease] = {}
        self._entered: dict[str, Lock] = {}
        self._cycling: list[threading.Thread] = []
        self._is_enough = threading.Event()
        self._tokens: list[int] = []

    def serve(self) -> None:
        serve(self, self._address)

    def _count(self, event: object) -> None:
        self._renewals += isinstance(event, Renewed)

    # -- commands ----------------------------------------------------------------------

    def acquire(self, name: str, **options: Any) -> int:
        self._leases[name] = self._locks.lock(name, **options).acquire()
        return self._leases[name].token

    def try_acquire(self, name: str) -> int | None:
        lease = self._locks.lock(name).try_acquire()
        if lease is None:
            return None
        self._leases[name] = lease
        return lease.token

    def enter(self, name: str) -> None:
        """Begin a `with` block."""
        self._entered[name] = self._locks.lock(name)
        self._leases[name] = self._entered[name].__enter__()

    def leave(self, name: str) -> None:
        """End the `with` block."""
        self._entered[name].__exit__(None, None, None)

    def check(self, name: str) -> None:
        self._leases[name].check()

    def release(self, name: str) -> None:
        self._leases[name].release()

    def is_trusted(self, name: str) -> bool:
        return self._leases[name].is_trusted

    def claim(self, name: str) -> str:
        return self._leases[name]._hold.grant.claim.id

    def client(self) -> str:
        return self._locks._client.id

    def renewals(self) -> int:
        return self._renewals

    def holders(self, name: str) -> list[int]:
        return [holder.owner.pid for holder in self._locks.inspect(name).holders]

    def close(self) -> None:
        self._locks.close()

    def begin_cycling(self, name: str, *, threads: int) -> None:
        """Take and release the name in a loop, on other threads."""

        def cycle() -> None:
            while not self._is_enough.is_set():
                with self._locks.lock(name, timeout=20) as lease:
                    self._tokens.append(lease.token)

        self._cycling = [threading.Thread(target=cycle, daemon=True) for _ in range(threads)]
        for thread in self._cycling:
            thread.start()

    def end_cycling(self) -> list[int]:
        """Stop the threads, and return the tokens in the order in which they were held."""
        self._is_enough.set()
        for thread in self._cycling:
            thread.join()
        return self._tokens

    def cycle(self, name: str) -> int:
        with self._locks.lock(name, timeout=20) as lease:
            return lease.token

    def findings(self) -> list[tuple[str, str]]:
        return [(one.level, one.subject) for one in self._locks.diagnose()]

    def fork(self, *, how: str = "os.fork") -> None:
        """Fork a child that goes on with what it has inherited."""
        if how == "multiprocessing":
            context = multiprocessing.get_context("fork")
            context.Process(target=self.serve, daemon=True).start()
        elif os.fork() == 0:
            self.serve()
            os._exit(0)

    def give_up_root(self) -> None:
        """Become a user to whom mode bits apply."""
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.setgroups([])
            os.setgid(nobody.pw_gid)
            os.setuid(nobody.pw_uid)


class Hammer:
    def __init__(self, log: str, number: int, ttl: float) -> None:
        self._log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._number = number
        self._ttl = ttl
        self._chance = random.Random(number)  # noqa: S311 - a run can be repeated

    def run(self, url: str, names: list[str], *, enough: Path) -> None:
        # A long timeout: a process that is frozen in the middle of a transaction keeps the file
        # locked.
        with Locks(url, ttl=self._ttl, request_timeout=20) as locks:
            while not enough.exists():
                name = self._chance.choice(names)
                try:
                    with locks.lock(name, timeout=30.0) as lease:
                        self._hold(lease)
                except LeaseLost:
                    continue  # it was frozen, and learns of the loss, as it should

    def _hold(self, lease: Lease) -> None:
        self._write("begin", lease)
        leave_at = (
            now() + self._chance.choices([0.0, 0.002, 0.02, 2 * self._ttl], [60, 30, 20, 1])[0]
        )
        while (left := leave_at - now()) > 0:
            time.sleep(min(left, self._ttl / 10))
            self._write("still", lease)
        self._write("end", lease)

    def _write(self, kind: str, lease: Lease) -> None:
        # Take the time first: a lease that is trusted afterwards was also trusted at that time.
        at = now()
        remaining = lease.remaining
        if remaining > 0:
            line = [kind, self._number, lease.name, lease.token, at, at + remaining]
            os.write(self._log, json.dumps(line).encode() + b"\n")


def main(role: str, *arguments: str) -> None:
    if role == "puppet":
        address, url, *options = arguments
        Puppet(address, url, **seconds_of(options)).serve()
    else:
        url, log, number, ttl, *names = arguments
        enough = Path(log).with_name("enough")
        Hammer(log, int(number), float(ttl)).run(url, names, enough=enough)


if __name__ == "__main__":
    main(*sys.argv[1:])
