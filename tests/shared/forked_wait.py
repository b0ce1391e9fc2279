"""A program that forks in the middle of a wait, as a signal handler may.

    forked_wait.py URL NAMESPACE MARK goes-on|leaves

The child goes on with what its parent was doing, or exits where it is. The process that gets the
lock creates the file MARK, which must not exist, and prints whether it is the parent or the child.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

from lockfast import Locks
from lockfast.model import Waiter
from lockfast_challenge.processes import eventually


def main(url: str, namespace: str, mark: str, what: str) -> None:
    parent, forked = os.getpid(), threading.Event()
    holder = Locks(url, namespace=namespace, ttl=20)
    lease = holder.lock("door").acquire()

    def fork(*_: object) -> None:
        child = os.fork()
        if child == 0 and what == "leaves":
            sys.exit()
        if what == "leaves":
            os.waitpid(child, 0)
        forked.set()

    def line() -> tuple[Waiter, ...]:
        return holder.inspect("door").line

    def conduct() -> None:
        eventually(lambda: len(line()) == 1)
        [first] = line()
        eventually(is_at_rest)
        os.kill(parent, signal.SIGUSR1)
        assert forked.wait(60)
        assert line()[0].age >= first.age  # no other claim has taken the place
        eventually(lambda: len(line()) == (2 if what == "goes-on" else 1))
        lease.release()

    signal.signal(signal.SIGUSR1, fork)
    conductor = threading.Thread(target=conduct)
    conductor.start()
    with Locks(url, namespace=namespace, ttl=20) as locks, locks.lock("door", timeout=60):
        Path(mark).touch(exist_ok=False)
        sys.stdout.write("parent\n" if os.getpid() == parent else "child\n")
        sys.stdout.flush()
        Path(mark).unlink()
    if os.getpid() != parent:
        os._exit(0)
    conductor.join()
    if what == "goes-on":
        assert os.wait()[1] == 0


def is_at_rest() -> bool:
    """Return whether the main thread waits: a fork while it starts a thread would hang for ever."""
    seen = set()
    for _ in range(10):
        time.sleep(0.02)
        stack, names = sys._current_frames()[threading.main_thread().ident], []
        seen.add((stack.f_code, stack.f_lasti))
        while stack is not None:
            names.append(stack.f_code.co_name)
            stack = stack.f_back
    return len(seen) == 1 and "start" not in names


if __name__ == "__main__":
    main(*sys.argv[1:])
