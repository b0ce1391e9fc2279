"""A waiter that was admitted by another client's release only reads the file."""

from __future__ import annotations

import threading

import pytest
from backends.sqlite.spoiling import change

import lockfast
from lockfast.core.door import ADMISSION_WINDOW_SECONDS
from lockfast.model import Claim, Grant, Held

FAR = 60.0


class Side:
    """A client, used through its port; its waiting claims ask only when the test says so."""

    def __init__(self, locks: lockfast.Locks) -> None:
        self._client = locks._client
        self._backend = locks._client.backend
        self._locks = locks

    def claim(self, **options: object) -> Claim:
        lock = self._locks.lock("door", **options)
        return self._client.new_claim(lock, context=threading.current_thread(), queues=True)

    def ask(self, claim: Claim) -> Grant | Held:
        """Ask as a woken claim would, which is never a claim's first request."""
        self._backend._woken.add(claim.id)
        return self._backend.try_acquire(claim, deadline=self._client.clock.now() + FAR)

    def release(self, grant: Grant) -> bool:
        deadline = self._client.clock.now() + FAR
        return self._backend.release(grant, deadline=deadline, tombstone=False)

    def trace(self) -> list[str]:
        """Return a list that receives the first word of each statement that this client runs."""
        words: list[str] = []
        self._backend._database.connection._sqlite.set_trace_callback(
            lambda one: words.append(one.split()[0])
        )
        return words


@pytest.fixture
def sides(url):
    with lockfast.Locks(url) as first, lockfast.Locks(url) as second:
        yield Side(first), Side(second)


def let_in(holder: Side, waiter: Side, **options: object) -> Claim:
    """Let a release admit a claim of the waiter, and return the claim before the waiter asks."""
    held = holder.ask(holder.claim())
    claim = waiter.claim(**options)
    assert isinstance(held, Grant)
    assert isinstance(waiter.ask(claim), Held)
    assert holder.release(held)
    return claim


def is_asked_for(waiter: Side, claim: Claim) -> bool:
    """Return whether an admitted claim gets a full ttl, not just the rest of its window."""
    grant = waiter.ask(claim)
    assert isinstance(grant, Grant)
    return grant.window is None


def test_it_looks_and_writes_nothing(sides):
    holder, waiter = sides
    claim = let_in(holder, waiter)
    words = waiter.trace()

    grant = waiter.ask(claim)

    assert isinstance(grant, Grant)
    assert grant.window is not None
    assert words == ["SELECT"]


def test_what_it_has_is_a_hold_like_any_other(sides):
    """A claim that only read its admission holds the name like any other claim."""
    holder, waiter = sides
    grant = waiter.ask(let_in(holder, waiter))
    following = holder.claim()

    assert isinstance(holder.ask(following), Held)
    assert waiter.release(grant)
    assert holder.ask(following).token > grant.token


@pytest.mark.parametrize(
    "option", [{"lock_delay": 5.0}, {"min_hold": 0.01}, {"owner": "saga"}, {"ttl": 1.0}]
)
def test_where_more_hangs_on_the_grant_it_is_asked_for(sides, option):
    """A claim with a delay, a `min_hold`, an owner or a short ttl asks for a full grant.

    A claim that was only admitted would leave no delay, and if frozen would outlast a short ttl.
    """
    holder, waiter = sides

    assert is_asked_for(waiter, let_in(holder, waiter, **option))


def test_an_old_window_is_asked_for_too(path, sides):
    """Late in its window a claim asks for a full grant: too little time is left for a renewal."""
    holder, waiter = sides
    claim = let_in(holder, waiter)
    change(
        path,
        f"UPDATE places SET since = since - {ADMISSION_WINDOW_SECONDS * 0.6} "  # noqa: S608
        "WHERE standing = 1",
    )
    change(
        path,
        f"UPDATE places SET until = until - {ADMISSION_WINDOW_SECONDS * 0.6} "  # noqa: S608
        "WHERE standing = 1",
    )

    assert is_asked_for(waiter, claim)


def test_a_window_that_is_over_grants_nothing(path, sides):
    """A claim that finds its window over is not granted, and joins the end of the line."""
    holder, waiter = sides
    claim = let_in(holder, waiter)
    change(
        path,
        f"UPDATE places SET since = since - {ADMISSION_WINDOW_SECONDS * 2}, "  # noqa: S608
        f"until = until - {ADMISSION_WINDOW_SECONDS * 2}",
    )
    other = holder.ask(holder.claim())

    answer = waiter.ask(claim)

    assert isinstance(other, Grant)
    assert isinstance(answer, Held)


def test_a_lease_that_began_so_is_renewed_to_its_full_ttl(url, eventually):
    """A renewal extends a lease from its admission window to its full ttl.

    The watchdog renews well before the window ends; the test renews at once.
    """
    entered: list[lockfast.Lease] = []
    with lockfast.Locks(url) as first, lockfast.Locks(url) as second:
        lease = first.lock("door").acquire()
        waiting = threading.Thread(
            target=lambda: entered.append(second.lock("door", ttl=60).acquire(timeout=FAR))
        )
        waiting.start()
        eventually(lambda: first.inspect("door").line)
        lease.release()
        waiting.join(FAR)

        entered[0].renew()

        assert entered[0].remaining > ADMISSION_WINDOW_SECONDS
        assert first.inspect("door").holders[0].remaining > ADMISSION_WINDOW_SECONDS
        entered[0].release()


def test_an_operator_ends_what_was_only_let_in(url, sides):
    """A broken admission leaves no trace, and its claim learns of the loss at its next request."""
    holder, waiter = sides
    grant = waiter.ask(let_in(holder, waiter))

    with lockfast.Locks(url) as operator:
        assert [one.token for one in operator.break_("door")] == [grant.token]

    assert not waiter.release(grant)
