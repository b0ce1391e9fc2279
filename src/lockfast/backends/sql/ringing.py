"""Ringing those whom a verb let in or turned away: in the transaction that did it, or here.

Where a server can ring, its store adds that to the transaction. Those of our own client are rung
here in any case, once it is over.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

from lockfast.errors import BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

    from lockfast.backends.sql.steps import Asked, Steps
    from lockfast.backends.sql.verbs import Decided
    from lockfast.core.place import Place

T = TypeVar("T")

WATCH = "~"
"""What stands before the claim that is to look later, in a message."""


class NoPush(BackendUnavailable):
    """What the server says unasked does not reach us, so whoever waits has to ask."""

    is_for_good = False


def new_channel() -> str:
    """Return a channel that nobody had before; it is the bell of a waiting claim."""
    return f"lockfast_{os.urandom(8).hex()}"


class Ringing:
    """How a transaction rings; as it is here, nobody else hears of it."""

    def after(
        self,
        steps: Callable[[], Steps[Decided[T]]],
        *,
        channel: str,
        here: Container[str],
        ours: list[str],
    ) -> Steps[T]:
        """Do the steps, and ring the others whom they have woken; may be begun anew.

        In `ours` are the claims of this channel, and those that wait `here`, to be rung by the
        caller once it is over.
        """
        decided = yield from steps()
        woken = decided.woken
        ours[:] = [one.claim.id for one in woken if one.bell == channel or one.claim.id in here]
        if woken and (asked := self.others(woken, channel=channel)):
            yield asked
        return decided.answer

    def others(self, woken: Sequence[Place], *, channel: str) -> Asked:
        """Return what rings those of other channels."""
        del woken, channel
        return ()
