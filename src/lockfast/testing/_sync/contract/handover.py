# Generated from src/lockfast/testing/_async/contract/handover.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The laws of leases that are handed over, and of sequencers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lockfast.core.lease_text import sequencer_from_text
from lockfast.errors import ConfigurationError, LeaseLost, NotOwner, OutcomeUnknown
from lockfast.testing._sync.contract.subject import Subject, Trials, requires

# Laws for leases that move from one client to another; each test names its law.


class LawsOfHandingOver(Trials):
    """The laws for stores in which a lease does not depend on a session of its client."""

    @requires("hands_over")
    def test_law_04_an_adopted_lease_keeps_its_token(self) -> None:
        """A lease keeps its token when another client adopts it; the first client's lease ends."""
        locks, others = self.locks(), self.locks()
        first = locks.lock("door", ttl=self.long_ttl).acquire()

        second = others.adopt(first.detach())

        assert (second.name, second.token, second.ttl) == ("door", first.token, self.long_ttl)
        assert second.is_trusted
        assert not first.is_trusted
        with pytest.raises(NotOwner, match="handed over"):
            first.release()
        with pytest.raises(NotOwner, match="handed over"):
            first.check()
        second.renew()
        assert locks.lock("door").try_acquire() is None
        second.release()
        self.assert_free("door", within=0.0)

    @requires("hands_over")
    def test_law_13_leaving_the_block_of_a_lease_that_was_detached_frees_nothing(
        self,
    ) -> None:
        locks = self.locks()
        with locks.lock("door", ttl=self.long_ttl) as lease:
            text = lease.detach()

        adopted = locks.adopt(text)

        assert adopted.is_trusted
        adopted.release()

    @requires("hands_over")
    def test_law_02_only_the_first_of_two_adopters_gets_the_lease(self) -> None:
        """The text of a detached lease can be copied, but only one client can adopt the lease."""
        text = self.locks().lock("door", ttl=self.long_ttl).acquire().detach()
        adopted = self.locks().adopt(text)

        with pytest.raises(LeaseLost):
            self.locks().adopt(text)

        assert adopted.is_trusted
        adopted.renew()
        adopted.release()

    @requires("hands_over")
    def test_law_02_a_lease_is_adopted_once_also_by_one_client(self) -> None:
        """One client cannot adopt a lease twice, as when a job is delivered twice to one worker."""
        locks = self.locks()
        text = self.locks().lock("door", ttl=self.long_ttl).acquire().detach()
        adopted = locks.adopt(text)

        with pytest.raises(LeaseLost, match="adopted before"):
            locks.adopt(text)

        adopted.renew()
        adopted.release()
        with pytest.raises(LeaseLost):
            locks.adopt(text)

    @requires("hands_over")
    def test_law_06_an_adoption_that_is_not_answered_may_be_repeated(self) -> None:
        locks, backend = self.faulty()
        text = locks.lock("door", ttl=self.long_ttl).acquire().detach()
        backend.lose_reply("hand_over")
        with pytest.raises(OutcomeUnknown):
            locks.adopt(text)

        adopted = locks.adopt(text)

        assert adopted.is_trusted
        adopted.release()

    @requires("hands_over")
    def test_law_09_a_lease_that_nobody_adopts_ends_by_its_ttl(self) -> None:
        """A detached lease lasts for its ttl, even if its client is closed, and then it ends."""
        others = self.locks()
        others.inspect("door")  # connect first, which may take longer than the ttl

        def leave(name: str, ttl: float) -> None:
            locks = self.locks()
            text = locks.lock(name, ttl=ttl).acquire().detach()
            locks.close()

            assert others.lock(name).try_acquire() is None
            self.assert_free(name, within=ttl + self.late)
            with pytest.raises(LeaseLost):
                others.adopt(text)

        self.undisturbed(leave, ttl=self.ttl)

    @requires("hands_over")
    def test_law_06_a_detach_that_is_not_answered_leaves_the_lease_ours(self) -> None:
        locks, backend = self.faulty()
        lease = locks.lock("door", ttl=self.long_ttl).acquire()
        backend.lose_reply("hand_over")

        with pytest.raises(OutcomeUnknown):
            lease.detach()

        assert lease.is_trusted
        lease.renew()
        adopted = self.locks().adopt(lease.detach())
        adopted.release()

    @requires("hands_over")
    def test_law_13_a_lease_that_was_entered_twice_is_not_handed_over(self) -> None:
        """Otherwise the owner of the other handle would act on a lock that someone else has."""
        lock = self.locks().lock("door", ttl=self.long_ttl)
        outer, inner = lock.acquire(), lock.acquire()

        with pytest.raises(NotOwner, match="more than once"):
            inner.detach()

        inner.release()
        adopted = self.locks().adopt(outer.detach())
        adopted.release()

    def test_law_12_a_text_that_is_no_lease_is_not_adopted(self) -> None:
        with pytest.raises(ConfigurationError, match="not the text of a lease"):
            self.locks().adopt("door")


# Laws for sequencers, with which other programs check whether a lease still holds; each test names
# its law.
#
# In all tests, the sequencer of a lease that has ended is never current.


class LawsOfSequencing(Subject):
    """The laws for stores that can state with certainty who holds a name."""

    @requires("sequencers")
    def test_law_03_a_sequencer_is_current_while_its_lease_holds(self) -> None:
        """Any client can check a sequencer repeatedly, and a renewal does not change it."""
        locks, others = self.locks(), self.locks()
        lease = locks.lock("door").acquire()
        text = lease.sequencer
        assert others.is_current(text)

        lease.renew()

        assert lease.sequencer == text
        assert others.is_current(text)
        assert locks.is_current(text)
        lease.release()

    @requires("sequencers")
    def test_law_03_a_sequencer_of_a_released_lease_is_never_current(self) -> None:
        """After a release, the sequencer is never current again, even if the name is held again."""
        locks, others = self.locks(), self.locks()
        with locks.lock("door") as lease:
            text = lease.sequencer

        assert not others.is_current(text)
        with locks.lock("door") as successor:
            assert not others.is_current(text)
            assert others.is_current(successor.sequencer)

    @requires("sequencers")
    def test_law_03_a_sequencer_of_a_broken_lease_is_never_current(self) -> None:
        """After a break, a sequencer is not current, even if the holder has not noticed yet."""
        locks, others = self.locks(), self.locks()
        lease = locks.lock("door").acquire()

        others.break_("door")

        assert not others.is_current(lease.sequencer)

    @requires("sequencers")
    def test_law_03_a_sequencer_of_an_expired_lease_is_never_current(self) -> None:
        """After its lease expired, a sequencer is not current, even if the name is held again."""
        others = self.locks()
        lease = self.locks(ttl=self.ttl).lock("door", renew=False).acquire()
        text = lease.sequencer

        self.pass_ttl()
        with others.lock("door", timeout=self.patience):
            assert not others.is_current(text)

        assert not others.is_current(text)

    @requires("sequencers")
    def test_law_03_what_min_hold_keeps_closed_is_not_current(self) -> None:
        """If min_hold keeps the name closed after a release, the sequencer is not current."""
        locks = self.locks()
        with locks.lock("door", min_hold=20.0) as lease:
            text = lease.sequencer

        assert not locks.is_current(text)

    @requires("sequencers")
    @requires("shared")
    def test_law_03_a_sequencer_is_of_its_own_hold_and_mode(self) -> None:
        """Readers that hold together have different sequencers, and a writer has its own, too."""
        locks, others = self.locks(), self.locks()
        first = locks.rwlock("config").read().acquire()
        second = others.rwlock("config").read().acquire()
        text = first.sequencer
        assert others.is_current(text)
        assert others.is_current(second.sequencer)

        first.release()

        assert not others.is_current(text)
        assert locks.is_current(second.sequencer)
        second.release()
        with locks.rwlock("config").write() as writer:
            assert others.is_current(writer.sequencer)
            assert not others.is_current(second.sequencer)

    @requires("sequencers")
    @requires("explicit_owner")
    def test_law_03_the_sequencer_of_an_explicit_owner_lasts_as_long_as_its_hold(
        self,
    ) -> None:
        """Clients with one explicit owner share a hold, which lasts until the last one releases."""
        locks, others = self.locks(), self.locks()
        first = locks.lock("door", owner="saga").acquire()
        second = others.lock("door", owner="saga").acquire()
        assert first.sequencer == second.sequencer

        first.release()
        assert locks.is_current(first.sequencer)
        second.release()

        assert not locks.is_current(first.sequencer)

    @requires("sequencers")
    def test_law_12_a_sequencer_of_one_name_says_nothing_of_another(self) -> None:
        """Special characters in a name cannot make a sequencer valid for another name."""
        locks = self.locks()
        names = ("door", "door ", 'a":"b', "türe/☃")
        leases = [locks.lock(name).acquire() for name in names]
        leases[0].release()

        assert not locks.is_current(leases[0].sequencer)
        for lease in leases[1:]:
            assert locks.is_current(lease.sequencer)
            lease.release()

    @requires("sequencers")
    def test_law_12_a_sequencer_of_another_store_says_nothing_of_this_one(self) -> None:
        """A sequencer of another store is not current here, even with equal name and token."""
        locks, others = self.locks(), self.locks()
        with locks.lock("door") as theirs:
            elsewhere = sequencer_from_text(theirs.sequencer)

        with locks.lock("door") as lease:
            alike = replace(elsewhere, token=lease.token)

            assert not others.is_current(alike.to_text())

    @requires("sequencers")
    def test_law_11_what_is_no_sequencer_is_refused(self) -> None:
        """A malformed text is reported as a mistake, not as a lease that has ended."""
        locks = self.locks()

        for text in ("", "door", "lockfast-sequencer-1:", "lockfast-lease-1:e30"):
            with pytest.raises(ConfigurationError, match="not the text of a sequencer"):
                locks.is_current(text)
