"""Ctrl-C while a fork waits for a call in progress: the fork completes, and nothing breaks."""

from __future__ import annotations

import subprocess
import sys

# The interrupt strikes once the main thread waits inside `os.fork`; only then may the call end.
SCRIPT = """
import os, signal, sys, threading
import lockfast

clients = [lockfast.Locks(f"sqlite://{sys.argv[1]}/{number}.db") for number in range(5)]
for one in clients:
    one.lock("door").acquire().release()
worker = clients[2]._client.backend._worker
main, inside, may_end = threading.get_ident(), threading.Event(), threading.Event()
struck = threading.Event()
owners = []

def call():
    inside.set()
    may_end.wait()
    owners.append(worker._turn.owner == threading.get_ident())

def is_waiting():
    frame = sys._current_frames()[main]
    return frame.f_code.co_name == "pause"

def strike():
    # Again and again: a signal that comes just before the thread falls asleep wakes nobody.
    while not struck.wait(0.01):
        if is_waiting():
            signal.pthread_kill(main, signal.SIGINT)

def interrupted(*_):
    if struck.is_set():
        return
    struck.set()
    # From now on the fork is waited for anew, if at all.
    threading.Thread(target=may_end.set).start()
    raise KeyboardInterrupt

signal.signal(signal.SIGINT, interrupted)
told = []
sys.unraisablehook = lambda one: told.append(one.exc_type)
busy = threading.Thread(target=lambda: worker.run(call))
busy.start()
inside.wait()
threading.Thread(target=strike).start()
for _ in range(2):
    child = os.fork()
    if child == 0:
        for one in clients:
            one.lock("door", timeout=5).acquire().release()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
busy.join()
for one in clients:
    thread = threading.Thread(target=lambda: one.lock("door", timeout=5).acquire().release())
    thread.start()
    thread.join()
print(told == [KeyboardInterrupt], owners == [True])
"""


def test_an_interrupt_while_fork_waits_leaves_every_mutex_with_its_owner(tmp_path):
    """The fork keeps waiting for the call in progress; later forks, calls and children work."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, "True True\n"), done.stderr
