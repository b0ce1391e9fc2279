"""A process that holds one name and waits for another, as one half of a deadlock.

    hold_and_wait.py URL NAMESPACE HELD WANTED

The process prints "holds", waits for a line on stdin, and acquires WANTED.
"""

from __future__ import annotations

import sys

from lockfast import Locks


def main(url: str, namespace: str, held: str, wanted: str) -> None:
    with Locks(url, namespace=namespace, label=held, request_timeout=30) as locks, locks.lock(held):
        sys.stdout.write("holds\n")
        sys.stdout.flush()
        sys.stdin.readline()
        with locks.lock(wanted):
            pass


if __name__ == "__main__":
    main(*sys.argv[1:])
