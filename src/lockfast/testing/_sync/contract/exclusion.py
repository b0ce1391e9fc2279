# Generated from src/lockfast/testing/_async/contract/exclusion.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""Laws 1 to 5: who holds a name, and how the store replies."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from lockfast.errors import (
    AcquireTimeout,
    BackendUnavailable,
    ConfigurationError,
    LeaseLost,
    WouldDeadlock,
)
from lockfast.model import ALL, Grant, Held, Renewal
from lockfast.testing import threads as runner
from lockfast.testing._sync.contract.subject import Overlap, Trials, requires


class LawsOfExclusion(Trials):
    """The laws about holding."""

    # -- Law 1: the body never runs without the lock -------------------------------------

    def test_law_01_a_held_lock_raises_instead_of_running_the_body(self) -> None:
        """If another client holds the lock, `with` raises and says that the lock is held."""
        held = self.locks().lock("door", ttl=self.long_ttl).acquire()
        ran = []

        with pytest.raises(AcquireTimeout) as caught:
            with self.locks().lock("door", timeout=0):
                ran.append(True)

        assert not ran
        assert held.is_trusted
        assert len(caught.value.holders) == 1

    def test_law_01_a_held_lock_names_its_holder(self) -> None:
        """A caller that does not get the lock learns who holds it."""
        held = self.locks(label="first").lock("door", ttl=self.long_ttl).acquire()

        with pytest.raises(AcquireTimeout) as caught:
            self.locks().lock("door").acquire(timeout=0)

        assert held.is_trusted
        assert [holder.owner.label for holder in caught.value.holders] == ["first"]

    def test_law_01_a_store_that_is_down_raises_instead_of_running_the_body(self) -> None:
        """If the store does not answer, the body must not run as if the lock were granted."""
        locks, backend = self.faulty()
        backend.go_away()
        ran = []

        with pytest.raises(BackendUnavailable):
            with locks.lock("door"):
                ran.append(True)

        assert not ran

    def test_law_01_a_decorated_function_runs_only_under_the_lock(self) -> None:
        """A decorated function obeys the same rules as a `with` block."""
        holder, other = self.locks(), self.locks()
        ran = []

        @other.locked("door:{number}", if_held="skip")
        def work(number: int) -> int:
            ran.append(number)
            return number

        lease = holder.lock("door:1").acquire()
        assert work(1) is None
        assert work(2) == 2
        lease.release()

        assert work(number=1) == 1
        assert ran == [2, 1]

    # -- Law 2: never more inside than fit -----------------------------------------------

    def test_law_02_one_holder_at_a_time(self) -> None:
        """Six contenders from three clients never hold one lock at the same time."""
        overlap = Overlap()

        def contend(lock: Any) -> None:
            for _ in range(5):
                with lock:
                    overlap.enter()
                    self.pass_time(0.001)
                    overlap.leave()

        clients = [self.locks() for _ in range(3)]
        contenders = [runner.start(contend, one.lock("door")) for one in clients * 2]
        for one in contenders:
            one.result()

        assert overlap.total == 30
        assert overlap.most == 1

    @requires("shared")
    def test_law_02_a_semaphore_lets_in_what_fits(self) -> None:
        """Permits of different sizes never add up to more than the capacity."""
        overlap = Overlap(capacity=3)

        def contend(locks: Any, permits: int) -> None:
            for _ in range(4):
                with locks.semaphore("pool", capacity=3, permits=permits):
                    overlap.enter(permits)
                    self.pass_time(0.002)
                    overlap.leave(permits)

        contenders = [runner.start(contend, self.locks(), permits) for permits in (1, 1, 2, 3, 1)]
        for one in contenders:
            one.result()

        assert overlap.total == 20

    @requires("shared")
    def test_law_02_readers_share_and_a_writer_is_alone(self) -> None:
        """Two readers hold together; a writer waits for both, and goes before a later reader."""
        first, second, third = self.locks(), self.locks(), self.locks()
        order: list[str] = []

        def write() -> None:
            with second.rwlock("config").write():
                order.append("writer")

        def read_late() -> None:
            with third.rwlock("config").read():
                order.append("reader")

        one = first.rwlock("config").read().acquire()
        two = second.rwlock("config").read().acquire(timeout=0)
        writer = runner.start(write)
        self.until_waiting(first, "config", 1)
        reader = runner.start(read_late)
        self.until_waiting(first, "config", 2)
        one.release()
        assert order == []
        two.release()
        writer.result()
        reader.result()

        assert order == ["writer", "reader"]

    def test_law_02_an_expired_holder_does_not_trust_its_lease(self) -> None:
        """A holder no longer trusts its expired lease when the store grants the name again."""
        old = self.locks(ttl=self.ttl).lock("door", renew=False).acquire()
        self.pass_ttl()

        new = self.locks().lock("door").acquire(timeout=self.patience)

        assert new.is_trusted
        assert not old.is_trusted

    @requires("fair")
    def test_law_02_the_line_is_first_come_first_served(self) -> None:
        """Waiting claims are admitted in order of arrival."""
        holder = self.locks()
        order: list[int] = []

        def wait_in_line(number: int) -> None:
            with self.locks().lock("door"):
                order.append(number)

        lease = holder.lock("door").acquire()
        waiters = []
        for number in range(5):
            waiters.append(runner.start(wait_in_line, number))
            self.until_waiting(holder, "door", number + 1)
        lease.release()
        for one in waiters:
            one.result()

        assert order == [0, 1, 2, 3, 4]

    @requires("shared")
    def test_law_02_big_claims_are_not_starved_by_small_ones(self) -> None:
        """The first claim that does not fit blocks all claims behind it."""
        locks, other = self.locks(), self.locks()
        small = locks.semaphore("pool", capacity=2).acquire()
        waiter = runner.start(other.semaphore("pool", capacity=2, permits=2).acquire)
        self.until_waiting(locks, "pool", 1)

        assert locks.semaphore("pool", capacity=2).try_acquire() is None

        small.release()
        assert waiter.result().is_trusted

    # -- Law 3: tokens only grow ---------------------------------------------------------

    @requires("has_tokens")
    def test_law_03_tokens_grow_over_release_break_and_expiry(self) -> None:
        """Every new grant of a name has a larger token, however the previous grant ended."""
        locks = self.locks()
        tokens = []
        for _ in range(3):
            lease = locks.lock("door").acquire()
            tokens.append(lease.token)
            lease.release()

        broken = locks.lock("door").acquire()
        tokens.append(broken.token)
        self.locks().break_("door")
        crashing = self.raw()
        expired = crashing.try_acquire(self.claim("door"), deadline=self.soon())
        assert isinstance(expired, Grant)
        tokens.append(expired.token or 0)
        self.crash(crashing)
        self.pass_ttl()
        last = self.locks().lock("door").acquire(timeout=self.patience)
        tokens.append(last.token)

        assert tokens == sorted(set(tokens))
        assert max(tokens) < 2**53

    @requires("has_tokens")
    def test_law_03_reentry_keeps_the_token(self) -> None:
        """An owner that acquires again gets the same hold."""
        lock = self.locks().lock("door")

        with lock as outer, lock as inner:
            assert inner.token == outer.token

    def test_law_03_reentry_sends_no_request(self) -> None:
        """An owner that acquires again gets the same hold, without a request to the store."""
        locks, backend = self.faulty()
        lock = locks.lock("door")

        with lock as outer, lock:
            lock.release()
            assert outer.is_trusted
            assert backend.calls["release"] == 0
            assert backend.calls["try_acquire"] == 1

        assert backend.calls["release"] == 1

    def test_law_03_a_lease_that_is_not_reentrant_refuses(self) -> None:
        """An owner that waited for its own lease would wait for ever."""
        lock = self.locks().lock("door", reentrant=False)
        with lock:
            with pytest.raises(WouldDeadlock):
                lock.acquire()

    @requires("shared")
    def test_law_03_a_writer_reads_and_a_reader_may_not_write(self) -> None:
        """A writer may read, by re-entry; a reader that asked to write would wait for itself."""
        rwlock = self.locks().rwlock("config")
        with rwlock.write() as writing, rwlock.read() as reading:
            assert reading.token == writing.token
        with rwlock.read():
            with pytest.raises(WouldDeadlock):
                rwlock.write().acquire()

    @requires("explicit_owner")
    def test_law_03_an_explicit_owner_shares_one_hold_and_one_token(self) -> None:
        """Two clients with the same explicit owner hold together; another owner waits for both."""
        one = self.locks().lock("saga", owner="saga-42").acquire()
        two = self.locks().lock("saga", owner="saga-42").acquire(timeout=0)
        stranger = self.locks().lock("saga")

        assert one.token == two.token
        one.release()
        assert stranger.try_acquire() is None
        two.release()

        after = stranger.try_acquire()
        assert after is not None
        assert after.token > two.token

    # -- Law 4: only the holding claim renews or releases ----------------------------------

    def test_law_04_a_stranger_cannot_release_or_renew(self) -> None:
        """A grant with the id of another claim can neither renew nor release the hold."""
        backend = self.raw()
        held = backend.try_acquire(self.claim("door", ttl=self.long_ttl), deadline=self.soon())
        assert isinstance(held, Grant)
        forged = Grant(self.claim("door"), held.token, self.ttl)

        released = backend.release(forged, deadline=self.soon(), tombstone=False)
        [renewal] = backend.renew([forged], deadline=self.soon())

        assert released is False
        assert renewal is Renewal.LOST
        assert self.locks().lock("door").try_acquire() is None
        assert backend.release(held, deadline=self.soon(), tombstone=False) is True

    def test_law_04_renewal_never_resurrects(self) -> None:
        """A claim that has expired cannot be renewed, even if no other claim has the name."""
        backend = self.raw()
        grant = backend.try_acquire(self.claim("door"), deadline=self.soon())
        assert isinstance(grant, Grant)
        self.crash(backend)
        self.pass_ttl()

        [renewal] = backend.renew([grant], deadline=self.soon())
        released = backend.release(grant, deadline=self.soon(), tombstone=False)

        assert renewal is Renewal.LOST
        assert released is False

    def test_law_04_a_late_holder_cannot_release_its_successors_lock(self) -> None:
        """An owner that outlived its lease must not free the lock of the next holder."""
        late = self.locks(ttl=self.ttl).lock("door", renew=False).acquire()
        self.pass_ttl()
        successor = self.locks().lock("door").acquire(timeout=self.patience)

        with pytest.raises(LeaseLost):
            late.release()

        assert successor.is_trusted
        assert self.locks().lock("door").try_acquire() is None

    # -- Law 5: requests are idempotent ----------------------------------------------------

    def test_law_05_a_repeated_grant_is_the_same_hold_with_a_new_deadline(self) -> None:
        """The client counts the ttl from the repeated request, so the store must do so too."""
        backend, other = self.raw(), self.raw()
        for one in (backend, other):
            # Connect before the test begins, because connecting may take longer than the ttl.
            one.inspect("door", deadline=self.soon())
        # A session has one ttl for all its claims, and each keep-alive restarts that ttl.
        is_short = self.capabilities.ends_by == "ttl"

        def repeat(name: str, ttl: float) -> None:
            claim = self.claim(name, ttl=ttl if is_short else self.long_ttl)
            first = backend.try_acquire(claim, deadline=self.soon())
            longer = dataclasses.replace(claim, ttl=self.long_ttl)
            again = backend.try_acquire(longer, deadline=self.soon())
            self.pass_ttl(ttl)

            answer = other.try_acquire(
                self.claim(name, queues=False, client="other", ttl=self.long_ttl),
                deadline=self.soon(),
            )

            assert isinstance(first, Grant)
            assert isinstance(again, Grant)
            assert again.token == first.token
            assert isinstance(answer, Held)

        self.undisturbed(repeat, ttl=self.ttl)

    @requires("fair")
    def test_law_05_a_repeat_keeps_its_place_in_line(self) -> None:
        """If a waiting claim repeats its request, its place in line does not change."""
        backend = self.raw()
        backend.try_acquire(self.claim("door", ttl=self.long_ttl), deadline=self.soon())
        first, second = (self.claim("door", ttl=self.long_ttl) for _ in range(2))
        for claim in (first, second, first, first, second):
            backend.try_acquire(claim, deadline=self.soon())

        one = backend.try_acquire(first, deadline=self.soon())
        two = backend.try_acquire(second, deadline=self.soon())

        assert isinstance(one, Held)
        assert isinstance(two, Held)
        assert (one.place, two.place) == (1, 2)

    @requires("fair")
    def test_law_05_a_repeat_of_a_broken_claim_says_that_it_has_no_place(self) -> None:
        """A repeat of a broken claim gets no place in line, so that its client starts over."""
        backend = self.raw()
        claim = self.claim("door", ttl=self.long_ttl)
        first = backend.try_acquire(claim, deadline=self.soon())
        backend.break_("door", deadline=self.soon())

        again = backend.try_acquire(claim, deadline=self.soon())

        assert isinstance(first, Grant)
        if isinstance(again, Grant):
            assert (again.token or 0) > (first.token or 0)
        else:
            assert again.place is None

    @requires("has_tokens")
    def test_law_05_an_expired_grant_is_not_returned(self) -> None:
        """If an expired claim is granted again, the grant is new and has a larger token."""
        backend, claim = self.raw(), self.claim("door")
        first = backend.try_acquire(claim, deadline=self.soon())
        self.crash(backend)
        self.pass_ttl()

        again = backend.try_acquire(claim, deadline=self.soon())

        assert isinstance(first, Grant)
        assert not isinstance(again, Grant) or (again.token or 0) > (first.token or 0)

    @requires("shared")
    def test_law_12_a_name_in_use_with_another_capacity_is_refused(self) -> None:
        """The error names both capacities, and the store's record does not change."""
        backend = self.raw()
        claim = self.claim("pool", capacity=3, ttl=self.long_ttl)
        backend.try_acquire(claim, deadline=self.soon())

        with pytest.raises(ConfigurationError, match=r"3.*read-write"):
            backend.try_acquire(
                self.claim("pool", capacity=ALL, weight=ALL, ttl=self.long_ttl),
                deadline=self.soon(),
            )

        assert backend.inspect("pool", deadline=self.soon()).capacity == 3
