"""What `runtime/interrupts.py` relies on: on each Python, `with` looks up `__exit__` first."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress

import pytest
from interrupting import interrupt

from lockfast.runtime.interrupts import keep_for_block, leaves_block


class Debt:
    """Records when the debt is owed, when it is fulfilled, and when it is dropped."""

    _told: list[str] | None = None

    def __init__(self, told: list[str]) -> None:
        self._told = told
        told.append("owed")

    def fulfil(self) -> None:
        self._told.append("fulfilled")

    def __del__(self) -> None:
        if self._told is not None:  # an interrupt may strike before the debt is owed
            self._told.append("dropped")


class Block:
    """Owes a debt from its beginning; leaving it is only recorded."""

    def __init__(self, told: list[str]) -> None:
        self.told = told

    def __enter__(self) -> None:
        keep_for_block(self, Debt(self.told))

    @leaves_block
    def __exit__(self, *_: object) -> None:
        self.told.append("left")


def passes(block: Block) -> None:
    with block:
        block.told.append("inside")


def raises(block: Block) -> None:
    with suppress(LookupError), block:
        block.told.append("inside")
        raise LookupError


def returns(block: Block) -> list[str]:
    with block:
        return block.told.append("inside")


def breaks(block: Block) -> None:
    for _ in range(2):
        with block:
            block.told.append("inside")
            break


BODIES = pytest.mark.parametrize("body", [passes, raises, returns, breaks])


@BODIES
def test_a_with_statement_keeps_what_is_owed_until_it_is_over(body: Callable[[Block], object]):
    """`with` looks up `__exit__` first; otherwise the debt would be fulfilled at once."""
    told: list[str] = []

    body(Block(told))

    assert told == ["owed", "inside", "left", "dropped"]


@BODIES
def test_what_is_owed_is_dropped_if_an_interrupt_strikes_before_exit_begins(
    body: Callable[[Block], object],
):
    told: dict[str, list[str]] = {}

    for place in itertools.count():
        heard: list[str] = []
        where = interrupt(lambda heard=heard: body(Block(heard)), at=place)
        if where is None:
            break
        told[where] = heard

    (at_exit,) = [one for where, one in told.items() if where.endswith("Block.__exit__")][:1]
    assert at_exit == ["owed", "inside", "dropped"]
    assert not any("fulfilled" in one for one in told.values())
    assert all(one.count("owed") == one.count("dropped") for one in told.values())


def test_who_enters_without_a_with_statement_owes_it_alone():
    told: list[str] = []
    block = Block(told)

    block.__enter__()

    assert told == ["owed", "fulfilled", "dropped"]
