"""The environment of the embedded default: this Python, this user, this machine."""

from __future__ import annotations

import asyncio
import errno
import os
import pwd
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from mounts import without_proc

import lockfast

PACKAGE = Path(lockfast.__file__).parent
NUMBERED = re.compile(r"\?\d")


def test_no_statement_numbers_its_placeholders():
    """Python 3.12.0 to 3.12.3 warns of `?1`, which is an error under `-W error`."""
    numbered = [
        f"{path.relative_to(PACKAGE)}: {line.strip()}"
        for path in PACKAGE.rglob("*.py")
        for line in path.read_text().splitlines()
        if NUMBERED.search(line)
    ]

    assert numbered == []


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch):
    """A user id without a passwd entry, as in containers, gets an error that says what to set."""

    def unknown(uid: int) -> pwd.struct_passwd:
        raise KeyError(uid)

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.setattr(os, "getuid", lambda: 54321)

    with pytest.raises(lockfast.ConfigurationError, match="XDG_STATE_HOME"):
        lockfast.Locks()


def test_a_machine_without_a_thread_to_spare_is_told_and_costs_nothing_later(tmp_path, monkeypatch):
    """No work is queued for a thread that could not start, or close would wait for ever."""

    def refuse(_thread):
        raise RuntimeError("can't start new thread")

    async def scenario():
        locks = lockfast.AsyncLocks(f"sqlite://{tmp_path}/locks.db")
        with monkeypatch.context() as machine:
            machine.setattr(threading.Thread, "start", refuse)
            with pytest.raises(lockfast.BackendUnavailable, match="no thread"):
                await locks.lock("door").acquire()

        await (await locks.lock("door").acquire()).release()
        await locks.aclose()

    asyncio.run(scenario())


def test_a_full_table_of_descriptors_is_an_outage_and_no_mistake_of_the_path(url, monkeypatch):
    def no_more(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with lockfast.Locks(url) as locks:
        monkeypatch.setattr("lockfast.backends.sqlite.presence.Presence.announce", no_more)
        with pytest.raises(lockfast.BackendUnavailable, match="Too many open files"):
            locks.lock("door").acquire(timeout=0)
        monkeypatch.undo()

        locks.lock("door").acquire(timeout=0).release()


SHORT_OF_DESCRIPTORS = """
import os, resource, sys
import lockfast

with lockfast.Locks(f"sqlite://{sys.argv[1]}/warm.db") as locks:
    locks.lock("door").acquire().release()  # nothing is imported later
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
for left in range(12):
    taken = []
    while True:
        try:
            taken.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            break
    for one in taken[:left]:
        os.close(one)
    told = "granted"
    with lockfast.Locks(f"sqlite://{sys.argv[1]}/{left}.db", request_timeout=30) as locks:
        try:
            locks.lock("door").acquire(timeout=0).release()
        except lockfast.LockError as error:
            told = f"{type(error).__name__} {error}"
    for one in taken[left:]:
        os.close(one)
    print(told)
"""


def test_without_descriptors_left_it_is_an_outage_and_no_mistake_of_the_path(tmp_path):
    """A lack of descriptors is an outage, although SQLite reports only that it cannot open."""
    done = subprocess.run(
        [sys.executable, "-c", SHORT_OF_DESCRIPTORS, tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )

    told = done.stdout.splitlines()
    assert (len(told), done.stderr) == (12, "")
    assert told[-1] == "granted"
    refused = [one for one in told if one != "granted"]
    assert refused
    assert [one for one in refused if not is_shortage(one)] == []


def is_shortage(told: str) -> bool:
    return told.startswith("BackendUnavailable") and "Too many open files" in told


def test_on_linux_without_proc_it_is_said_that_it_is_missing(tmp_path):
    """Without /proc the error says so, instead of blaming a path that is fine."""
    program = f"import lockfast; lockfast.Locks('sqlite://{tmp_path}/locks.db').lock('x').acquire()"
    done = subprocess.run(
        [*without_proc(), sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
    )

    [sentence] = done.stderr.splitlines()[-1:]
    assert sentence.startswith("lockfast.errors.ConfigurationError")
    assert "boot_id" in sentence
    assert sentence.endswith("on Linux, mount /proc")
    assert "writ" not in sentence
