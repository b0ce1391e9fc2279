"""Every session variable of a server is classified, and none of the defaults is trusted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

import pytest
from both_flavours import number_waiting

from lockfast.backends.sql.session_variables import Pinned
from lockfast_challenge.processes import eventually


def unclear(
    names: Iterable[str], pinned: Sequence[Pinned], left: Mapping[str, str]
) -> dict[str, int]:
    """Return the variables that the table does not list exactly once, with their counts."""
    patterns = [one.name for one in pinned] + [
        one for line in left.values() for one in line.split()
    ]
    found = Counter({name: sum(fnmatchcase(name, one) for one in patterns) for name in names})
    assert found, "the server was asked for its variables, and has some"
    return {name: count for name, count in found.items() if count != 1}


class HostileDefaultsLaws:
    """Locks on a server with hostile defaults.

    The fixture `opened` makes clients, by each way of connecting. Each test failed under at least
    one of these defaults until the variable was pinned.
    """

    @pytest.fixture
    def pair(self, opened):
        return opened(), opened()

    def test_a_grant_is_committed_before_it_is_returned(self, pair, name):
        one, other = pair
        other.lock(f"{name} held").acquire(timeout=20)
        assert one.lock(f"{name} held").try_acquire() is None  # served by a transaction

        lease = one.lock(name).acquire(timeout=20)  # served by one statement

        assert [who.token for who in other.inspect(name).holders] == [lease.token]

    def test_a_semaphore_lets_in_no_more_than_its_capacity(self, pair, name):
        tried = [pair[i % 2].semaphore(name, capacity=3).try_acquire() for i in range(6)]

        assert sum(one is not None for one in tried) == 3

    def test_no_writer_enters_beside_readers(self, pair, opened, name):
        for one in (*pair, *pair):
            one.rwlock(name).read().acquire(timeout=20)

        assert opened().rwlock(name).write().try_acquire() is None

    def test_several_names_are_taken_together_and_renewed(self, pair, name):
        one, other = pair
        names = [f"{name} {'x' * 100} {i}" for i in range(20)]

        for lease in one.all(*names).acquire(timeout=20):
            lease.renew()

        assert other.lock(names[-1]).try_acquire() is None

    def test_who_waits_gets_its_turn(self, pair, flavour, name):
        one, other = pair
        lease = one.lock(name).acquire(timeout=20)
        waiting = flavour.start(other.lock(name).acquire, timeout=60)
        eventually(lambda: number_waiting(other), what="it stands in line")

        lease.release()

        assert waiting.result().token > lease.token

    def test_names_are_found_and_broken(self, pair, name):
        one, other = pair
        names = [f"{name} {i}" for i in range(3)]
        for each in names:
            one.lock(each).acquire(timeout=20)

        assert sorted(seen.name for seen in other.survey(name)) == names
        assert len(other.break_(names[0])) == 1
