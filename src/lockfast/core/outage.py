"""How long somebody who asks a store outlives that it does not answer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Outage:
    """A store that does not answer, as one who asks it sees it: since when, how often before."""

    since: float
    failures: int = 0

    def is_outlived(self, *, now: float, deadline: float, ttl: float, was_answered: bool) -> bool:
        """Whether to ask once more.

        Somebody who stands in line waits up to a ttl: by then the place is gone anyway. Before
        the first answer it is asked again once.
        """
        is_worth_it = now < self.since + ttl if was_answered else self.failures == 0
        return is_worth_it and now < deadline

    def again(self) -> Outage:
        """Return it after one more request that was not answered."""
        return Outage(self.since, self.failures + 1)
