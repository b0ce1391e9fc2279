"""Everything that a forked child must let go of is told, whatever else goes wrong there."""

from __future__ import annotations

import os

from lockfast.runtime import forking

MANY = 8
"""Told in no order: that all who fail come last is unlikely enough."""


class Failing:
    """Something that cannot let go."""

    def after_fork_in_child(self) -> None:
        raise OSError


class Noting:
    """Something that knows whether it was told."""

    is_told = False

    def after_fork_in_child(self) -> None:
        self.is_told = True


def test_one_that_fails_keeps_no_other_from_letting_go():
    """Else the child would go on with its parent's connections."""
    failing, noting = [Failing() for _ in range(MANY)], [Noting() for _ in range(MANY)]
    for pair in zip(failing, noting, strict=True):
        for one in pair:
            forking.forget_in_child(one)

    child = os.fork()
    if child == 0:
        os._exit(0 if all(one.is_told for one in noting) else 1)
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0
