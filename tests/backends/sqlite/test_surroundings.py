"""What the embedded default finds around it: this Python, this user, this machine."""

from __future__ import annotations

import asyncio
import errno
import os
import pwd
import re
import threading
from pathlib import Path

import pytest

import holdfast

PACKAGE = Path(holdfast.__file__).parent
NUMBERED = re.compile(r"\?\d")


def test_no_statement_numbers_its_placeholders():
    """Pythons 3.12.0 to 3.12.3 warn of `?1`, which is an error under `-W error`."""
    numbered = [
        f"{path.relative_to(PACKAGE)}: {line.strip()}"
        for path in PACKAGE.rglob("*.py")
        for line in path.read_text().splitlines()
        if NUMBERED.search(line)
    ]

    assert numbered == []


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch):
    """Containers run under numbers that no passwd knows; a sentence, not a bare RuntimeError."""

    def unknown(uid: int) -> pwd.struct_passwd:
        raise KeyError(uid)

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.setattr(os, "getuid", lambda: 54321)

    with pytest.raises(holdfast.ConfigurationError, match="XDG_STATE_HOME"):
        holdfast.Locks()


def test_a_machine_without_a_thread_to_spare_is_told_and_costs_nothing_later(tmp_path, monkeypatch):
    """What was put for a thread that never began would be waited for in vain, at close too."""

    def refuse(_thread):
        raise RuntimeError("can't start new thread")

    async def scenario():
        locks = holdfast.AsyncLocks(f"sqlite://{tmp_path}/locks.db")
        with monkeypatch.context() as machine:
            machine.setattr(threading.Thread, "start", refuse)
            with pytest.raises(holdfast.BackendUnavailable, match="no thread"):
                await locks.lock("door").acquire()

        await (await locks.lock("door").acquire()).release()
        await locks.aclose()

    asyncio.run(scenario())


def test_a_full_table_of_descriptors_is_an_outage_and_no_mistake_of_the_path(url, monkeypatch):
    def no_more(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with holdfast.Locks(url) as locks:
        monkeypatch.setattr("holdfast.backends.sqlite.presence.Presence.announce", no_more)
        with pytest.raises(holdfast.BackendUnavailable, match="Too many open files"):
            locks.lock("door").acquire(timeout=0)
        monkeypatch.undo()

        locks.lock("door").acquire(timeout=0).release()
