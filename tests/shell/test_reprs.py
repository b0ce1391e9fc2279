"""What a debugger and a log show of the objects that callers have."""

from __future__ import annotations

import re

from lockfast import AsyncLocks, Locks


def test_a_lease_shows_how_long_it_is_trusted_and_why_it_is_not():
    with Locks("memory://", ttl=60) as locks:
        lease, broken = locks.lock("door").acquire(), locks.lock("window").acquire()
        held = repr(lease)
        lease.release()
        locks.break_("window")

        assert re.fullmatch(rf"<Lease 'door' token={lease.token} trusted for \d+\.\d s>", held)
        assert repr(lease) == f"<Lease 'door' token={lease.token} over>"
        assert repr(broken) == f"<Lease 'window' token={broken.token} lost: broken>"


def test_a_signal_shows_whether_and_why_it_is_set():
    with Locks("memory://") as locks:
        lease = locks.lock("door").acquire()
        before = repr(lease.lost)
        locks.break_("door")

        assert [before, repr(lease.lost)] == ["<Signal not set>", "<Signal set: broken>"]


def test_a_read_and_a_write_lock_are_called_as_they_are_made():
    for locks, prefix in ((Locks("memory://one"), ""), (AsyncLocks("memory://one"), "Async")):
        config = locks.rwlock("config")

        assert repr(config.read()) == f"<{prefix}RWLock.read 'config' at {locks.location}>"
        assert repr(config.write()) == f"<{prefix}RWLock.write 'config' at {locks.location}>"
