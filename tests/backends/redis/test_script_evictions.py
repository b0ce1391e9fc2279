"""How the scripts treat a name after the server evicted one of the name's keys.

The scripts check each count against the entries that it counts. Otherwise a free name would be
refused, or two claims would be inside at once.
"""

from __future__ import annotations

import pytest
from backends.redis.scripted import Scripted, claim

from lockfast.model import Grant, Held, Renewal

HOLDER = claim(0, client="holder")


def _evict(scripted: Scripted, kind: str) -> None:
    scripted.ask("DEL", scripted.key(kind))


def test_a_name_whose_line_was_evicted_is_free_when_its_holder_leaves(scripted: Scripted) -> None:
    """The name is free even for a claim that does not queue: the evicted waiters may be dead."""
    scripted.arrive(HOLDER)
    scripted.arrive(claim(1, client="dead"))
    _evict(scripted, "line")

    scripted.release(HOLDER, tombstone=False)

    assert isinstance(scripted.arrive(claim(2, client="other", queues=False)), Grant)


@pytest.mark.parametrize("is_back", [False, True], ids=["", "the clock is put back"])
@pytest.mark.parametrize("others", [0, 1, 2])
def test_a_heartbeat_says_that_the_line_was_evicted(
    others: int, scripted: Scripted, *, is_back: bool
) -> None:
    """A waiter learns of its lost line even if other claims have formed a new line meanwhile."""
    scripted.arrive(HOLDER)
    for n in (1, 2):
        scripted.arrive(claim(n, client="waiter"))
        scripted.arrive(claim(n + 10, client=f"before{n}"))
    epoch = scripted.beat("waiter").epoch
    scripted.now += -3600 if is_back else 1
    scripted.renew(HOLDER)
    _evict(scripted, "line")
    for n in range(others):
        scripted.arrive(claim(20 + n, client=f"other{n}"))

    assert scripted.beat("waiter").epoch != epoch

    assert scripted.arrive(claim(1, client="waiter")).place == others + 1
    assert scripted.arrive(claim(2, client="waiter")).place == others + 2
    assert scripted.beat("waiter").epoch not in (0, epoch)
    scripted.release(HOLDER, tombstone=False)
    order = [20 + n for n in range(others)] + [1, 2]
    for n in order:
        one = claim(n, client="waiter" if n < 20 else f"other{n - 20}")
        assert isinstance(scripted.arrive(one), Grant), n
        scripted.release(one, tombstone=False)


def test_the_claims_of_a_lost_line_are_not_counted_in_the_next(scripted: Scripted) -> None:
    """Withdrawing a claim of the lost line does not change the count of claims in the new line."""
    scripted.arrive(HOLDER)
    for n in (1, 2):
        scripted.arrive(claim(n, client="waiter"))
    _evict(scripted, "line")
    scripted.beat("waiter")
    scripted.arrive(claim(2, client="waiter"))
    epoch = scripted.beat("waiter").epoch

    scripted.withdraw(claim(1, client="waiter"), tombstone=False)

    assert scripted.beat("waiter").epoch == epoch


@pytest.mark.parametrize("verb", ["acquire", "withdraw"])
def test_a_late_request_for_an_evicted_hold_does_not_let_two_in(
    verb: str, scripted: Scripted
) -> None:
    """Once the next claim is inside, a late request for the evicted hold admits no third claim."""
    scripted.arrive(HOLDER)
    scripted.arrive(claim(1, client="next"))
    _evict(scripted, "ends")
    scripted.beat("next")
    assert isinstance(scripted.arrive(claim(1, client="next")), Grant)

    if verb == "acquire":
        assert isinstance(scripted.arrive(HOLDER), Held)
    else:
        scripted.withdraw(HOLDER, tombstone=False)

    assert isinstance(scripted.arrive(claim(2, client="third")), Held)
    assert scripted.renew(claim(1, client="next")) is Renewal.RENEWED


def test_an_owner_whose_hold_was_evicted_does_not_come_in_uncounted(scripted: Scripted) -> None:
    """An owner whose hold was evicted must queue, although another key still records the hold."""
    scripted.arrive(claim(0, party="saga"))
    scripted.arrive(claim(1, client="waiter"))
    _evict(scripted, "ends")
    scripted.beat("waiter")
    assert isinstance(scripted.arrive(claim(1, client="waiter")), Grant)

    assert isinstance(scripted.arrive(claim(2, party="saga")), Held)


def test_an_owner_is_known_inside_where_that_was_evicted(scripted: Scripted) -> None:
    """An owner's second claim must not wait for its first, or the two would deadlock."""
    first = scripted.arrive(claim(0, party="saga"))
    scripted.arrive(claim(1, client="stranger"))
    _evict(scripted, "kin")

    again = scripted.arrive(claim(2, party="saga"))

    assert isinstance(again, Grant)
    assert again.token == first.token
    scripted.release(claim(0, party="saga"), tombstone=False)
    assert isinstance(scripted.arrive(claim(1, client="stranger")), Held)
    scripted.release(claim(2, party="saga"), tombstone=False)
    assert isinstance(scripted.arrive(claim(1, client="stranger")), Grant)


def test_the_claims_of_an_owner_come_in_together_though_it_was_evicted_that_they_wait(
    scripted: Scripted,
) -> None:
    """An owner's two claims are admitted together, or the first could wait for the second."""
    scripted.arrive(HOLDER)
    first, stranger, second = (
        claim(1, party="saga", client="one"),
        claim(2, client="stranger"),
        claim(3, party="saga", client="two"),
    )
    for one in (first, stranger, second):
        scripted.arrive(one)
    epoch = scripted.beat("two").epoch
    _evict(scripted, "kin")

    scripted.release(HOLDER, tombstone=False)

    assert isinstance(scripted.arrive(first), Grant)
    assert scripted.beat("two").epoch != epoch
    assert isinstance(scripted.arrive(second), Grant)


def test_the_dead_of_an_owner_do_not_stand_before_its_living_when_their_line_was_evicted(
    scripted: Scripted,
) -> None:
    """An owner's living claims get in although one step cannot look past its many dead claims."""
    scripted.arrive(HOLDER)
    for n in range(1, 20):
        scripted.arrive(claim(n, party="saga", client="dead"))
    _evict(scripted, "line")
    first, stranger, second = (
        claim(30, party="saga", client="one"),
        claim(31, client="stranger"),
        claim(32, party="saga", client="two"),
    )
    for one in (first, stranger, second):
        scripted.arrive(one)

    scripted.release(HOLDER, tombstone=False)

    assert isinstance(scripted.arrive(first), Grant)
    assert isinstance(scripted.arrive(second), Grant)


def test_tombstones_that_were_evicted_are_counted_no_more(scripted: Scripted) -> None:
    """A stale count of tombstones would keep the name off the fast path while it is in use."""
    scripted.arrive(HOLDER)
    scripted.withdraw(claim(1), tombstone=True)
    _evict(scripted, "gone")

    scripted.withdraw(claim(2), tombstone=False)
    scripted.arrive(claim(3, client="waiter"))

    assert scripted.ask("HEXISTS", scripted.key("door"), "gone") == 0
