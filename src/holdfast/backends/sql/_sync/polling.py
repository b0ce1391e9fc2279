# Generated from src/holdfast/backends/sql/_async/polling.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""Waiting where the store cannot ring: who of a client's waiting claims asks when.

The first in a line asks by itself, again and again. All others of a client are looked after by
one statement about once a second, whoever of them sends it; it finds those who were let in, were
turned away, or have come to the front, and lines whose front is dead. What this client's own
calls do is known at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast._sync.wakeups import Wakeups
from holdfast.backends.sql.lines import Waiting, to_ring
from holdfast.core.backoff import delay
from holdfast.errors import LockError
from holdfast.runtime import threads as runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from holdfast.backends.sql.lines import Sight
    from holdfast.core.place import Place
    from holdfast.model import Claim, Held
    from holdfast.runtime.clock import Clock

FIRST, MOST = 0.01, 0.1
"""How long the first in line pauses between two questions: at first, and after some of them."""

LOOK = 1.05
"""How often one looks for all others of a client. Well below the window in which one who was let
in has to answer, or it would lose its place."""

REQUEST = 1.0
"""How long such a look may take."""

SAFETY_NET = 300.0
"""After so long a waiting claim asks by itself, whoever looks for it; later where many wait."""


class Polling:
    """The waiting claims of one client; `look` tells of all that wait of the given client ids."""

    def __init__(
        self,
        look: Callable[[Collection[str], float], Sequence[Sight]],
        clock: Clock,
    ) -> None:
        self._look = look
        self._clock = clock
        self._wakeups = Wakeups(clock)
        self._begin()

    def _begin(self) -> None:
        self._state = runtime.StateLock()
        self._waiting: dict[str, Waiting] = {}
        self._look_at = 0.0

    # -- who waits ---------------------------------------------------------------------

    def arrival_of(self, claim: Claim) -> int | None:
        """Return where the claim stands, None if it does not."""
        waiting = self._waiting.get(claim.id)
        return None if waiting is None else waiting.arrived

    def stands(self, claim: Claim, held: Held, *, arrived: int) -> float:
        """Know that the claim stands in line; return after how long it should ask again."""
        with self._state:
            waiting = self._waiting.get(claim.id)
            if waiting is None:
                waiting = self._waiting[claim.id] = Waiting(claim, arrived)
                self._wakeups.expect(claim.id)
            waiting.arrived = arrived
            waiting.is_first = held.place == 1
            waiting.asked = waiting.asked + 1 if waiting.is_first else 0
            others = len(self._waiting)
        if not waiting.is_first:
            return max(SAFETY_NET, 2.0 * others)
        pause = delay(waiting.asked - 1, jitter=self._clock.jitter(), first=FIRST, most=MOST)
        return pause if held.retry_in is None else min(pause, max(0.0, held.retry_in))

    def forget(self, claim: Claim) -> None:
        """Know that the claim no longer waits; the next of ours at its name looks at once."""
        with self._state:
            gone = self._waiting.pop(claim.id, None)
            self._wakeups.forget(claim.id)
            if gone is None:
                return
            behind = [one for one in self._waiting.values() if one.claim.name == claim.name]
        if behind:
            self._wakeups.ring(min(behind, key=lambda one: one.arrived).claim.id)

    # -- who is woken ------------------------------------------------------------------

    def ring(self, claim_id: str) -> None:
        """Let a claim ask again, if it waits here."""
        self._wakeups.ring(claim_id)

    def ring_all(self, places: Collection[Place]) -> None:
        """Let those ask again whom a call of ours has let in or turned away."""
        for one in places:
            self._wakeups.ring(one.claim.id)

    def wait(self, claim: Claim, *, deadline: float) -> None:
        """Return when asking again may help; see the protocol."""
        while (now := self._clock.now()) < deadline:
            waiting = self._waiting.get(claim.id)
            if waiting is None or waiting.is_first:
                self._wakeups.wait(claim.id, deadline=deadline)
                return
            if self._is_due(now):
                try:
                    self._look_around()
                except LockError:
                    # Whoever asks by itself is told why, and what to do about it.
                    return
            until = min(deadline, self._look_at)
            if self._wakeups.wait(claim.id, deadline=until):
                return

    def _is_due(self, now: float) -> bool:
        """Whether to look now; then nobody else does, until the next look is due."""
        with self._state:
            if now < self._look_at:
                return False
            self._look_at = now + LOOK
            return True

    def _look_around(self) -> None:
        with self._state:
            asked = [one for one in self._waiting.values() if not one.is_first]
        if not asked:
            return
        clients = {one.claim.client for one in asked}
        for claim_id in to_ring(asked, self._look(clients, self._clock.now() + REQUEST)):
            self._wakeups.ring(claim_id)

    def after_fork_in_child(self) -> None:
        """Begin with nobody: those who wait do so in the parent."""
        self._wakeups = Wakeups(self._clock)
        self._begin()
