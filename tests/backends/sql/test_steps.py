"""What a verb asks of a store: as little as it needs, in few round trips, and in order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from backends.sql.stores import OneTable, Store, TwoTables

from lockfast.backends.sql.steps import Query, QueryMany, Steps, side_by_side
from lockfast.backends.sql.verbs import FRONT_ROWS, SHORT_LINE_ROWS
from lockfast.core.naming import storage_key
from lockfast.model import Claim, Grant, Held, Renewal

LONG = 200


@pytest.fixture(params=[OneTable, TwoTables])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    store = request.param()
    yield store
    store.close()


def claim(number: int, name: str = "door", *, capacity: int = 1, party: str | None = None) -> Claim:
    return Claim(f"{number}", name, f"client {number}", "", 1, capacity, 30.0, party)


def arrive(store: Store, one: Claim, *, arrived: int | None = None) -> Grant | Held:
    answer, _ = store.run(store.verbs.arrive(one, bell=one.id, arrived=arrived))
    return answer


def line_up(store: Store, size: int, *, capacity: int = 1) -> None:
    """Let claim 0 hold, and this many claims wait behind it."""
    for number in range(size + 1):
        arrive(store, claim(number, capacity=capacity))


# -- how much is queried ---------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, FRONT_ROWS, 10, LONG])
def test_a_release_reads_once_and_writes_once_however_long_the_line(store, size):
    line_up(store, size)

    _, woken = store.run(store.verbs.release(claim(0)))

    assert [one.bell for one in woken] == ["1"][:size]
    assert len(store.rounds) == 2


@pytest.mark.parametrize(
    ("size", "rounds"),
    [(0, 2), (1, 2), (FRONT_ROWS, 2), (SHORT_LINE_ROWS - 1, 2), (SHORT_LINE_ROWS, 3), (LONG, 3)],
)
def test_a_newcomer_reads_the_end_of_a_long_line_in_one_more_round_trip(store, size, rounds):
    line_up(store, size)

    answer = arrive(store, claim(-1))

    assert answer.place == size + 1
    assert len(store.rounds) == rounds


def test_who_knows_where_it_stands_is_told_its_number_by_two_questions(store):
    line_up(store, LONG)

    seen = store.run(store.verbs.still_waiting(claim(150), arrived=150))

    assert seen.answer.place == 150
    assert len(store.rounds) == 2


def test_who_is_mistaken_about_its_place_is_told_the_right_number(store):
    line_up(store, LONG)

    answer = arrive(store, claim(150), arrived=149)

    assert answer.place == 150
    assert len(store.rounds) <= 4


def test_who_is_mistaken_about_its_place_is_withdrawn_all_the_same(store):
    line_up(store, LONG)

    store.run(store.verbs.withdraw(claim(150), arrived=149))

    assert len(store.places("door")) == LONG
    assert "150" not in {row[1] for row in store.places("door")}


def test_who_asks_when_a_party_passes_it_by_is_not_counted_down_for_those_behind(store):
    """An owner's claims 1 and 9 are admitted together; claim 6 moves up by one place only."""
    parties = {1: "saga", 9: "saga"}
    for number in range(11):
        arrive(store, claim(number, party=parties.get(number)))
    store.now += 31

    answer, door = store.run(store.verbs.arrive(claim(6), bell="", arrived=6))

    assert [one.claim.id for one in door.woken] == ["1", "9"]
    assert answer.place == 5


@pytest.mark.parametrize("capacity", [1, 20])
def test_a_batch_of_renewals_takes_two_round_trips(store, capacity):
    held = [claim(n, f"door {n % 50}", capacity=capacity) for n in range(50 * capacity)]
    for one in held:
        arrive(store, one)

    renewals, _ = store.run(store.verbs.renew(held))

    assert renewals == [Renewal.RENEWED] * len(held)
    assert len(store.rounds) == 2


def test_many_names_are_read_in_the_order_of_their_keys(store):
    """Names are locked in one order, because batches with different orders would deadlock."""
    steps = store.verbs.renew([claim(1, "b"), claim(2, "c"), claim(3, "a")])

    asked = next(steps)

    keys = [bytes(one.values[0]) for one in asked]
    assert keys == sorted(keys)
    assert set(keys) == {storage_key("steps", name) for name in "abc"}


def test_a_door_that_opens_wide_is_read_further(store):
    """If admission reaches the end of the rows that were read, more rows are read."""
    writer = Claim("w", "door", "client", "", 20, 20, 30.0)
    arrive(store, writer)
    for number in range(40):
        arrive(store, claim(number, capacity=20))

    _, woken = store.run(store.verbs.release(writer))

    assert [one.claim.id for one in woken] == [f"{number}" for number in range(20)]
    assert len(store.rounds) == 4


def test_what_changes_nothing_writes_nothing(store):
    line_up(store, 3)
    before = store.sqlite.total_changes

    store.run(store.verbs.withdraw(claim(-1)))

    assert store.sqlite.total_changes == before


def test_who_is_let_in_and_broken_in_one_step_leaves_no_row(store):
    line_up(store, 1)
    store.now += 31

    store.run(store.verbs.break_("door"))

    assert store.places("door") == []


# -- the name's record -----------------------------------------------------------------


def test_a_new_names_record_is_made_before_it_is_locked():
    store = TwoTables()

    answer = arrive(store, claim(1))

    assert isinstance(answer, Grant)
    [first, second, _] = store.rounds
    assert "FOR UPDATE" in first[0]
    assert "INSERT" in second[0]
    assert "FOR UPDATE" in second[1]
    store.close()


@pytest.mark.parametrize("verb", ["renew", "release", "withdraw", "hand_over"])
def test_who_only_leaves_or_stays_makes_no_record(verb):
    """A late release of a name that was reaped must not bring the name back."""
    store = TwoTables()
    one = claim(1)

    store.run(getattr(store.verbs, verb)([one] if verb == "renew" else one))

    assert store.sqlite.execute("SELECT count(*) FROM door").fetchone() == (0,)
    store.close()


def test_what_was_held_when_the_release_was_sent_was_held(store):
    """A hold that was valid when its release was sent counts as held, if no claim came since."""
    arrive(store, claim(1))
    sent, store.now = store.now + 29, store.now + 31

    was_held, _ = store.run(store.verbs.release(claim(1), at=sent))

    assert was_held


# -- several names ---------------------------------------------------------------------


def test_forgetting_clients_frees_every_name_they_are_at(store):
    for name in ("a", "b"):
        arrive(store, claim(1, name))
        arrive(store, claim(2, name))

    _, woken = store.run(store.verbs.forget(["client 1"]))

    assert [(one.claim.name, one.bell) for one in woken] == [("a", "2"), ("b", "2")]
    assert len(store.rounds) == 3


def test_a_survey_shows_the_names_in_use(store):
    for name in ("a", "ab", "b"):
        arrive(store, claim(1, name))
    store.run(store.verbs.release(claim(1, "ab")))

    seen = store.run(store.verbs.survey("a"))

    assert [one.name for one in seen] == ["a"]


# -- side by side ----------------------------------------------------------------------


def test_steps_side_by_side_get_their_own_answers_and_share_what_they_write():
    def step(number: int, length: int) -> Steps[list[object]]:
        heard: list[object] = []
        for _ in range(length):
            heard.extend((yield [Query("read", (number,)), Query("again", (-number,))]))
        if number:
            heard.extend((yield [QueryMany("write", [(number,)])]))
        return heard

    steps = side_by_side([step(0, 0), step(1, 1), step(2, 2), step(3, 1)])

    asked = next(steps)
    assert [one.values[0] for one in asked] == [1, -1, 2, -2, 3, -3]
    asked = steps.send([[one.values] for one in asked])
    assert asked == [Query("read", (2,)), Query("again", (-2,)), QueryMany("write", [(1,), (3,)])]
    asked = steps.send([[one.values] for one in asked[:2]] + [()])
    assert asked == [QueryMany("write", [(2,)])]
    with pytest.raises(StopIteration) as ended:
        steps.send([()])
    two = [[(2,)], [(-2,)]]
    assert ended.value.value == [[], [[(1,)], [(-1,)], ()], [*two, *two, ()], [[(3,)], [(-3,)], ()]]


def test_nothing_side_by_side_asks_nothing():
    with pytest.raises(StopIteration) as ended:
        next(side_by_side([]))
    assert ended.value.value == []
