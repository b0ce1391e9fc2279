"""A process that forks while its threads use the client: the child returns from the fork."""

from __future__ import annotations

import subprocess
import sys

from backends.mysql import each_server

server = each_server.server

PROGRAM = """
import os, sys, threading
import lockfast

locks = lockfast.Locks(sys.argv[1], request_timeout=30)
is_over = threading.Event()

def use(number):
    while not is_over.is_set():
        with locks.lock(f"name {number % 3}", timeout=60):
            pass

threads = [threading.Thread(target=use, args=[number]) for number in range(12)]
for one in threads:
    one.start()
children = []
for _ in range(8):
    with locks.lock("between two forks", timeout=60):
        pass
    child = os.fork()
    if child == 0:
        os._exit(0)
    children.append(child)
codes = [os.waitstatus_to_exitcode(os.waitpid(one, 0)[1]) for one in children]
is_over.set()
for one in threads:
    one.join()
locks.close()
print(codes)
"""


def test_a_child_that_is_forked_while_threads_wait_for_answers_comes_back(server):
    """A thread that the child lacks may hold the lock of the driver's reader during the fork."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, server.url()],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )

    assert done.stdout == f"{[0] * 8}\n", done.stderr
