"""The hammer strikes on each Python: what a profile function raises is raised in the program."""

from __future__ import annotations

import itertools

from interrupting import interrupt


def called(*_: object, **__: object) -> None:
    """Be of Python's own, as those beside it are of C's."""


class Made:
    def __init__(self, number: int) -> None:
        self.number = number


def calls(done: list[str]) -> None:
    """Call in every way that has instructions of its own."""
    called()
    called(1, named=2)
    called(*done)
    Made(3)
    len(done)
    sorted(done, key=None)
    max(*[1, 2])
    int("1")
    done.copy()
    done.append("done")


def struck() -> tuple[set[str], list[str]]:
    """Return the kinds of places that were struck, and after which the program went on."""
    kinds: set[str] = set()
    ignored: list[str] = []
    for place in itertools.count():
        after: list[str] = []

        def program(after: list[str] = after) -> None:
            calls([])
            after.append("went on")

        where = interrupt(program, at=place)
        if where is None:
            return kinds, ignored
        if calls.__name__ in where or called.__name__ in where or Made.__name__ in where:
            kinds.add(where.split()[0])
            ignored += [where] * bool(after)
    raise AssertionError


def test_an_interrupt_at_any_place_ends_what_it_strikes():
    kinds, ignored = struck()

    assert kinds == {"call", "return", "c_return"}
    assert ignored == []


def test_what_a_call_of_c_has_done_is_done_and_its_result_is_gone():
    done: list[str] = []
    results: list[object] = []

    def program() -> None:
        results[:] = [done.pop()]

    reached = set()
    for place in itertools.count():
        done[:], results[:] = ["once"], []
        where = interrupt(program, at=place)
        if where is None:
            break
        if where.startswith("c_return pop"):
            reached.add((len(done), len(results)))

    assert reached == {(0, 0)}
