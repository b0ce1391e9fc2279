# Generated from src/lockfast/testing/_async/contract/handing.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""Leases that go from one client to another; each test names the law it serves."""

from __future__ import annotations

import pytest

from lockfast.errors import ConfigurationError, LeaseLost, NotOwner, OutcomeUnknown
from lockfast.testing._sync.contract.subject import requires
from lockfast.testing._sync.contract.trials import Trials


class LawsOfHandingOver(Trials):
    """Where the store keeps a lease by itself, and no session of the client's carries it."""

    @requires("hands_over")
    def test_law_04_who_adopts_a_lease_has_it_with_its_token(self) -> None:
        """Here it is over, and there it is renewed and released as any other."""
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
    def test_law_02_of_two_who_adopt_a_lease_the_first_has_it(self) -> None:
        """A text can be copied, and a lease cannot."""
        text = self.locks().lock("door", ttl=self.long_ttl).acquire().detach()
        adopted = self.locks().adopt(text)

        with pytest.raises(LeaseLost):
            self.locks().adopt(text)

        assert adopted.is_trusted
        adopted.renew()
        adopted.release()

    @requires("hands_over")
    def test_law_02_a_lease_is_adopted_once_also_by_one_client(self) -> None:
        """A job that is delivered twice may meet the same worker."""
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
        """Not before, although its client has gone."""
        others = self.locks()
        others.inspect("door")  # connected: that may take longer than the ttl

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
        """Whoever has the other handle would act upon what is somebody else's."""
        lock = self.locks().lock("door", ttl=self.long_ttl)
        outer, inner = lock.acquire(), lock.acquire()

        with pytest.raises(NotOwner, match="more than once"):
            inner.detach()

        inner.release()
        adopted = self.locks().adopt(outer.detach())
        adopted.release()

    def test_law_12_what_is_no_lease_is_not_adopted(self) -> None:
        with pytest.raises(ConfigurationError, match="not the text of a lease"):
            self.locks().adopt("door")
