"""A separate process that executes a test's commands and replies, with errors as they are.

client_puppet.py ADDRESS FLAVOUR URL [OPTION=SECONDS …]
"""

from __future__ import annotations

import os
import sys
from typing import Any

from both_flavours import Flavour
from puppets import seconds_of, serve


class Puppet:
    def __init__(self, address: str, flavour: str, url: str, **options: float) -> None:
        self._address = address
        self._flavour = Flavour(flavour)
        self._renewals = 0
        self._locks = self._flavour.locks(url, on_event=self._count, **options)
        self._kept: list[Any] = []
        self._leases: dict[str, Any] = {}

    def serve(self) -> None:
        serve(self, self._address)
        os._exit(0)  # otherwise its threads would go on

    def _count(self, event: object) -> None:
        self._renewals += type(event).__name__ == "Renewed"

    # -- commands ----------------------------------------------------------------------

    def acquire(self, name: str, **options: Any) -> int | None:
        lock = self._locks.lock(name, **options)
        self._kept.append(lock)
        self._leases[name] = lock.acquire()
        return self._leases[name].token if self._locks.capabilities.has_tokens else None

    def check(self, name: str) -> None:
        self._leases[name].check()

    def release(self, name: str) -> None:
        self._leases[name].release()

    def renewals(self) -> int:
        return self._renewals

    def let_many_wait(self, name: str, number: int) -> None:
        for _ in range(number):
            lock = self._locks.lock(name)
            self._kept.append((lock, self._flavour.start(lock.acquire)))

    def close(self) -> None:
        (self._locks.close if self._flavour.name == "sync" else self._locks.aclose)()

    def fork(self) -> None:
        """Fork a child that goes on with everything that it has inherited."""
        if os.fork() == 0:
            self._flavour.after_fork_in_child()
            self.serve()


def main(address: str, flavour: str, url: str, *options: str) -> None:
    # The Redis driver imports OpenTelemetry if it is installed, as it is for a few of our tests.
    # That takes as long as importing all of Lockfast. None makes Python treat it as missing.
    sys.modules["opentelemetry"] = None  # type: ignore[assignment]
    Puppet(address, flavour, url, **seconds_of([*options])).serve()


if __name__ == "__main__":
    main(*sys.argv[1:])
