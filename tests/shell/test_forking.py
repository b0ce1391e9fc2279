"""Every object that has to abandon something in a forked child is notified, whatever else fails."""

from __future__ import annotations

import os

from lockfast.runtime import fork

MANY = 8
"""So many objects that the failing ones are unlikely to come last in the arbitrary order."""


class Failing:
    """An object that raises when it should abandon what it has."""

    def after_fork_in_child(self) -> None:
        raise OSError


class Noting:
    """An object that records whether it was notified."""

    is_told = False

    def after_fork_in_child(self) -> None:
        self.is_told = True


def test_one_that_fails_keeps_no_other_from_letting_go():
    """If one object fails, the child must still abandon all other connections of its parent."""
    failing, noting = [Failing() for _ in range(MANY)], [Noting() for _ in range(MANY)]
    for pair in zip(failing, noting, strict=True):
        for one in pair:
            fork.reset_in_child(one)

    child = os.fork()
    if child == 0:
        os._exit(0 if all(one.is_told for one in noting) else 1)
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0
