"""Which shard is asked, when the others are looked at, and when a line is left for another.

Whoever finds its shard held stands in line there, and looks at the others: at once, then less and
less often. Not at once where the last look found somebody everywhere, or the line let the last one
in before it would have looked again: there a look costs more than it finds. A shard that nobody is
at is tried; the place in line is kept meanwhile. A line that stands still while another moves on at
each look is left for that one: a holder may hang.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockfast.core.naming import checked_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.model import Crowd

FIRST_LOOK = 0.05
"""After so many seconds in line the others are looked at once more; then after twice as many."""

RARELY = 1.0
"""At least so often they are: until then a shard may be free that nobody has noticed."""

PATIENCE = 5
"""At so many looks, one after the other, another line has moved and ours has not."""


class Elsewhere(Exception):
    """Another shard is ours, or its line is to be joined; nobody outside ever sees it."""


def shard_name(name: str, shard: int) -> str:
    """Return the name of a shard's lock, as `stock#3`."""
    return checked_name(f"{name}#{shard}")


@dataclass(frozen=True, slots=True)
class Outlook:
    """What one who stands in line at a shard, `own`, has seen of them all."""

    own: int
    crowds: tuple[Crowd, ...] = ()
    looks: int = 0
    streaks: tuple[int, ...] = ()
    """Of each, at how many looks in a row it has moved while ours stood still."""
    is_put_off: bool = False
    """Whether the first look comes after a while, see above."""

    @property
    def next_in(self) -> float:
        """After how many seconds to look again."""
        if not self.looks:
            return FIRST_LOOK if self.is_put_off else 0.0
        return min(FIRST_LOOK * 2.0 ** min(self.looks - 1, 10), RARELY)

    def after(self, crowds: Sequence[Crowd]) -> Outlook:
        """Return what is known after a further look."""
        streaks = [0] * len(crowds)
        if self.crowds and not self._has_moved(self.own, crowds):
            streaks = [
                self.streaks[one] + 1 if self._has_moved(one, crowds) else 0
                for one in range(len(crowds))
            ]
        return Outlook(self.own, tuple(crowds), self.looks + 1, tuple(streaks), self.is_put_off)

    def _has_moved(self, shard: int, now: Sequence[Crowd]) -> bool:
        return self.crowds[shard].last_token != now[shard].last_token

    def vacant(self) -> list[int]:
        """Return the shards that nobody was at, beginning after our own: each has its turn."""
        count = len(self.crowds)
        order = [(self.own + step) % count for step in range(1, count)]
        return [one for one in order if not self.crowds[one].number]

    def is_crowded(self) -> bool:
        """Whether somebody is everywhere, as far as was seen."""
        return all(one.number for one in self.crowds)

    def livelier(self) -> int | None:
        """Return the shard whose line is to be joined instead of ours, if there is one."""
        lively = [one for one, streak in enumerate(self.streaks) if streak >= PATIENCE]
        return min(lively, key=lambda one: self.crowds[one].number, default=None)
