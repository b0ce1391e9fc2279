"""Which deadlocks the replies of a store show, and which cycles are only apparent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lockfast import Holder, Inspection, Owner, Waiter
from lockfast.cli.deadlocks import confirmed_cycles, found, sentences

ONE = Owner("web-1", 4711, "Task-12", "shop", asker="aa-1")
OTHER = Owner("web-2", 812, "MainThread", asker="bb-1")


def name(name: str, holder: Owner, *line: Owner) -> Inspection:
    holders = (Holder(holder, token=1, weight=1, age=1.0, remaining=9.0),)
    waiters = tuple(Waiter(one, weight=1, place=place) for place, one in enumerate(line, 1))
    return Inspection(name, 1, holders, waiters)


TANGLE = [name("x", ONE, OTHER), name("y", OTHER, ONE)]


def test_two_who_wait_for_each_other_are_named():
    [cycle] = confirmed_cycles(lambda: TANGLE)

    assert sentences(cycle) == [
        "web-2 pid 812, 'MainThread' waits for 'x', which web-1 pid 4711 (shop), 'Task-12' holds",
        "web-1 pid 4711 (shop), 'Task-12' waits for 'y', which web-2 pid 812, 'MainThread' holds",
    ]


def test_what_only_one_look_shows_is_no_cycle():
    """A single look may show a false cycle, because names are read one after the other."""
    looks = iter([TANGLE, TANGLE[:1]])

    assert confirmed_cycles(lambda: next(looks)) == []


def test_whom_an_older_version_wrote_down_is_taken_to_go_on():
    old = replace(ONE, asker="")

    assert found([name("x", old, OTHER), name("y", OTHER, old)]) == []


def test_threads_of_one_process_are_told_apart():
    """One thread holds what another thread of its process waits for, so this is not a cycle."""
    twin = replace(ONE, asker="aa-2")

    assert found([name("x", ONE, OTHER), name("y", OTHER, twin)]) == []


@pytest.mark.parametrize("owner", [ONE, replace(ONE, asker="")])
def test_an_owner_is_read_as_it_was_written(owner):
    assert Owner.from_text(owner.to_text()) == owner
