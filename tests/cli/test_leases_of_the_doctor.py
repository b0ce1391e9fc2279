"""What the doctor reports about the leases in use, whatever else it has found."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from lockfast import BackendUnavailable, Finding, Inspection, Locks, NotAcquired
from lockfast.cli.doctor import _lease_findings
from lockfast_challenge.processes import eventually

WIDE = Finding("warning", "permissions", "the user may do everything", "give it less")


def test_a_store_that_stops_answering_before_its_leases_are_read_is_told_of(monkeypatch):
    """The doctor still shows all its other findings."""

    def away(_prefix: str = "") -> Iterator[Inspection]:
        raise BackendUnavailable("the server is gone")

    with Locks("memory://") as locks:
        found = locks.diagnose()
        monkeypatch.setattr(locks, "survey", away)
        [told] = _lease_findings(locks, found)

    assert (told.level, told.subject) == ("warning", "leases")
    assert told.message == "who holds and who waits could not be read: the server is gone"


@pytest.mark.parametrize("found", [[], [WIDE]], ids=["nothing", "wide permissions"])
def test_a_cycle_is_found_beside_whatever_else_was(found):
    url, enough = f"memory://{os.urandom(4).hex()}", threading.Event()
    holding = threading.Barrier(2)

    def hold_and_wait(held: str, wanted: str) -> None:
        with Locks(url) as locks, locks.lock(held):
            holding.wait(60)
            with pytest.raises(NotAcquired, match="was cancelled"):
                locks.lock(wanted).acquire(cancel=enough)

    with Locks(url) as locks, ThreadPoolExecutor(2) as pool:
        both = [pool.submit(hold_and_wait, *names) for names in (("x", "y"), ("y", "x"))]
        eventually(lambda: locks.inspect("x").line and locks.inspect("y").line)
        told = _lease_findings(locks, found)
        enough.set()
        for one in both:
            one.result(60)

    [deadlock] = [one for one in told if one.subject == "deadlock"]
    assert deadlock.level == "error"
    assert "waits for 'x'" in deadlock.message
    assert "waits for 'y'" in deadlock.message
