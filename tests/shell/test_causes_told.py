"""What the log and the errors say about a loss, a risk and a long wait."""

from __future__ import annotations

import asyncio
import logging
import re
import signal
import subprocess
import sys
import time

import pytest
from both_flavours import FLAVOURS, Flavour
from virtual import virtual

from lockfast import AcquireTimeout, AsyncLocks, AtRisk, LeaseLost, Reconnected, SafeAgain
from lockfast.core import event_notes
from lockfast.core.event_notes import log_line
from lockfast.testing import run_in_virtual_time
from lockfast_challenge.processes import eventually

PATIENCE = 60.0


@pytest.fixture(params=FLAVOURS)
def flavour(request):
    flavour = Flavour(request.param)
    yield flavour
    flavour.close()


HOLDER = """
import lockfast, sys
locks = lockfast.Locks("memory://", ttl=2.0)
lease = locks.lock("why").acquire()
print("held", flush=True)
lease.lost.wait()
try:
    lease.check()
except lockfast.LeaseLost as error:
    print(error, flush=True)
"""


def test_a_process_that_was_stopped_is_said_to_be_the_cause():
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stderr is not None
        assert holder.stdout.readline() == "held\n"
        holder.send_signal(signal.SIGSTOP)
        time.sleep(3.0)  # longer than the ttl
        holder.send_signal(signal.SIGCONT)
        said, logged = holder.stdout.read(), holder.stderr.read()

    for one in (said, logged):
        assert re.search(r"\(expired\); this process did not run for \d+\.\d s", one), one


def test_a_blocked_event_loop_is_said_to_be_the_cause():
    async def main() -> str:
        async with AsyncLocks("memory://", ttl=1.0) as locks:
            lease = await locks.lock("why").acquire()
            await asyncio.sleep(0.05)
            time.sleep(1.5)  # noqa: ASYNC251 - a common mistake
            with pytest.raises(LeaseLost) as caught:
                lease.check()
            return str(caught.value)

    said = asyncio.run(main())

    assert re.search(r"\(expired\); the event loop was blocked for \d+\.\d s", said), said


def test_a_silent_store_is_said_to_be_the_cause(caplog):
    """The test runs in virtual time, so that nothing but the store can be the cause."""

    async def main() -> str:
        locks, backend = virtual(ttl=9.0)
        lease = await locks.lock("why").acquire()
        backend.hang("renew", times=100)
        await lease.lost.wait()
        with pytest.raises(LeaseLost) as caught:
            lease.check()
        await locks.aclose()
        return str(caught.value)

    said = run_in_virtual_time(main())

    assert re.search(r"\(expired\); the store did not answer for [56]\.\d s", said), said
    assert said in caplog.text


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (
            AtRisk("x", 7, "me", 1.665),
            "lease on 'x' is at risk: it has not been renewed, 1.7 s left",
        ),
        (SafeAgain("x", 7, "me", 9.5), "lease on 'x' is safe again: it was renewed, 9.5 s left"),
        (
            Reconnected("x", None, "me", 3.21),
            "the store answers again, 3.2 s after the first request that failed",
        ),
    ],
)
def test_what_happens_to_a_lease_is_a_sentence_in_the_log(event, said):
    assert log_line(event) == said


def test_a_long_wait_is_mentioned_and_then_rarely(caplog):
    caplog.set_level(logging.INFO, logger="lockfast")

    async def main() -> None:
        locks, backend = virtual(ttl=30.0)
        other = AsyncLocks.from_backend(backend.inner, clock=locks._client.clock, ttl=30.0)
        async with other.lock("stuck"):
            with pytest.raises(AcquireTimeout):
                await locks.lock("stuck").acquire(timeout=5000.0)
        await locks.aclose()
        await other.aclose()

    run_in_virtual_time(main())

    said = [one.getMessage() for one in caplog.records if "still waiting" in one.getMessage()]
    after = [int(re.search(r"after (\d+) s", one)[1]) for one in said]
    assert after == [10, 60, 360, 2160]
    assert re.search(r"still waiting for 'stuck' after 10 s: held by .*; number 1 in line", said[0])


def test_who_waits_long_is_told_in_both_flavours(flavour, caplog, monkeypatch):
    monkeypatch.setattr(event_notes, "LONG_WAIT_SECONDS", 0.05)
    caplog.set_level(logging.INFO, logger="lockfast")
    locks = flavour.locks("memory://")
    lease = locks.lock("stuck").acquire()

    waiting = flavour.start(locks.lock("stuck").acquire, timeout=PATIENCE)

    said = r"still waiting for 'stuck' after \d+ s: held by"
    eventually(lambda: re.search(said, caplog.text))
    lease.release()
    waiting.result(PATIENCE).release()


def test_without_anybody_to_read_it_no_wait_asks_more_often(flavour, monkeypatch):
    """The message about a long wait costs a request, so it is only sent if the log takes it."""
    monkeypatch.setattr(event_notes, "LONG_WAIT_SECONDS", 0.001)
    locks = flavour.locks("memory://")
    with_lock = locks.lock("stuck").acquire()
    waiting = flavour.start(locks.lock("stuck").acquire, timeout=PATIENCE)
    client = getattr(locks, "_inner", locks)._client
    eventually(lambda: any(one.stands for one in client.asking()))

    assert not any(one._mention_after for one in client.asking())

    with_lock.release()
    waiting.result(PATIENCE).release()
