"""When a claim that waits at one shard tries another shard, or moves to another line."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lockfast.core.sharding import SHARD_LOOK_SECONDS, SHARD_LOOKS_BEFORE_SWITCH, Outlook
from lockfast.model import Crowd

COUNTS = st.lists(st.integers(0, 5), min_size=1, max_size=8)


def crowds(*numbers: int, tokens: tuple[int, ...] | None = None) -> list[Crowd]:
    return [
        Crowd(number, token)
        for number, token in zip(numbers, tokens or (1,) * len(numbers), strict=True)
    ]


@given(COUNTS, st.data())
def test_what_is_tried_is_every_other_shard_that_nobody_is_at(numbers, data):
    own = data.draw(st.integers(0, len(numbers) - 1))

    vacant = Outlook(own).after(crowds(*numbers)).vacant()

    assert sorted(vacant) == [i for i, n in enumerate(numbers) if n == 0 and i != own]


def test_the_next_shard_is_tried_first_so_that_each_has_its_turn():
    assert Outlook(2).after(crowds(0, 0, 1, 0)).vacant() == [3, 0, 1]


def test_looks_come_at_once_and_then_less_and_less_often():
    outlook, pauses = Outlook(0), []
    for _ in range(8):
        pauses.append(outlook.next_in)
        outlook = outlook.after(crowds(1, 1))

    assert pauses == [0.0, 0.05, 0.1, 0.2, 0.4, 0.8, SHARD_LOOK_SECONDS, SHARD_LOOK_SECONDS]


def test_a_first_look_that_is_put_off_comes_after_a_while():
    assert Outlook(1, is_delayed=True).next_in == 0.05
    assert Outlook(1, is_delayed=True).after(crowds(1, 1)).next_in == 0.05


def test_it_is_crowded_where_somebody_is_everywhere():
    assert Outlook(0).after(crowds(1, 2)).is_crowded()
    assert not Outlook(0).after(crowds(1, 0)).is_crowded()


def test_a_line_that_stands_still_is_left_for_the_shortest_that_moves():
    outlook = Outlook(0)
    for look in range(SHARD_LOOKS_BEFORE_SWITCH):
        outlook = outlook.after(crowds(1, 3, 2, 1, tokens=(1, look, look, 1)))
        assert outlook.faster_shard() is None

    outlook = outlook.after(crowds(1, 3, 2, 1, tokens=(1, 99, 99, 1)))

    assert outlook.faster_shard() == 2


def test_a_line_that_moves_is_kept():
    outlook = Outlook(0)
    for look in range(3 * SHARD_LOOKS_BEFORE_SWITCH):
        outlook = outlook.after(
            crowds(1, 1, tokens=(look // (SHARD_LOOKS_BEFORE_SWITCH - 1), look))
        )

        assert outlook.faster_shard() is None


def test_a_line_is_kept_if_others_move_only_now_and_then():
    """All holds are long, so a claim that moved would only be last in another line."""
    outlook = Outlook(0)
    for look in range(6 * SHARD_LOOKS_BEFORE_SWITCH):
        outlook = outlook.after(crowds(1, 1, tokens=(1, look // 2)))

        assert outlook.faster_shard() is None


def test_where_there_are_no_tokens_nobody_moves():
    outlook = Outlook(0)
    for _ in range(3 * SHARD_LOOKS_BEFORE_SWITCH):
        outlook = outlook.after([Crowd(1, None), Crowd(1, None)])

    assert outlook.faster_shard() is None
