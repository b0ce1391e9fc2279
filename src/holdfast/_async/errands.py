"""What the store did not answer, and must still be told: claims to withdraw, grants to release.

In a task or thread of its own, which is there only while there is something to tell. A store
that does not answer keeps it waiting, and nobody's renewal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.core.backoff import delay
from holdfast.errors import LockError
from holdfast.runtime import aio as runtime

if TYPE_CHECKING:
    from holdfast._async.client import AsyncClient
    from holdfast.model import Claim, Grant

NEVER = float("inf")


@dataclass(slots=True)
class Errand:
    """A claim that the store may still know, and until when that could matter."""

    claim: Claim
    grant: Grant | None
    due: float
    give_up: float
    attempt: int = 0


class AsyncErrands:
    """Goes on telling the store until it answers."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._open: list[Errand] = []
        self._task: runtime.Task | None = None
        self._kick: runtime.Event | None = None
        self._is_stopping = False

    def withdraw_later(self, claim: Claim) -> None:
        """Go on withdrawing a claim that the store did not answer for."""
        self._add(claim, None)

    def release_later(self, grant: Grant) -> None:
        """Go on releasing: not withdrawing, for a release keeps its min_hold."""
        self._add(grant.claim, grant)

    @property
    def are_done(self) -> bool:
        """Whether the store has answered everything, or nothing of it matters any more."""
        return not self._open

    def _add(self, claim: Claim, grant: Grant | None) -> None:
        # The store forgets it by itself: a hold after its ttl, a waiting claim when its turn
        # is not answered. So we give up after twice that. Not so where a session carries it,
        # which this client keeps alive: there only an answer ends it, or the session's end.
        now = self._client.clock.now()
        is_carried = self._client.backend.capabilities.ends_by == "session"
        give_up = NEVER if is_carried else now + 2 * claim.ttl + 60
        with self._client.state:
            self._open.append(Errand(claim, grant, now, give_up))
            if self._task is not None and self._kick is not None:
                self._kick.set()
        self.go_on()

    def go_on(self) -> None:
        """See to it that somebody runs them."""
        if not self._open or self._is_stopping:
            return
        with self._client.state:
            # It is gone without a word where a program cancels all its tasks.
            if self._task is not None and self._task.is_alive():
                return
            self._kick = runtime.Event()
            try:
                self._task = runtime.spawn(self._run, name="holdfast-errands")
            except RuntimeError as error:
                # No thread is to be had just now; the watchdog comes by again.
                self._client.logger.warning("errands have to wait: %s", error)

    async def stop(self) -> None:
        """End the background; what is open is tried a last time, together as long as one."""
        self._is_stopping = True
        with self._client.state:
            task, kick = self._task, self._kick
        if kick is not None:
            kick.set()
        if task is not None:
            await task.join()
        deadline = self._client.request_deadline()
        for one in self._open:
            if self._client.clock.now() >= deadline:
                break
            await self._tell(one, deadline=deadline)
        self._open.clear()

    def after_fork_in_child(self) -> None:
        """Start anew: the parent's are the parent's."""
        self.__init__(self._client)  # type: ignore[misc]

    async def _run(self) -> None:
        client, kick = self._client, self._kick
        while kick is not None and not self._is_stopping:
            kick.clear()
            if self._is_stopping:
                return  # said between the look above and the clearing
            now = client.clock.now()
            with client.state:
                due = [one for one in self._open if now >= one.due]
                if not self._open:
                    self._task = None
                    return
                next_at = min(one.due for one in self._open)
            for one in due:
                await self._try(one)
                if self._is_stopping:
                    return
            if not due:
                await runtime.wait_for(kick, deadline=next_at, clock=client.clock)

    async def _try(self, one: Errand) -> None:
        client = self._client
        is_done = await self._tell(one, deadline=client.request_deadline())
        now = client.clock.now()
        one.attempt += 1
        one.due = now + delay(one.attempt, jitter=client.clock.jitter())
        if is_done or now >= one.give_up:
            with client.state:
                if one in self._open:
                    self._open.remove(one)

    async def _tell(self, one: Errand, *, deadline: float) -> bool:
        """Whether the store has answered."""
        backend = self._client.backend
        try:
            if one.grant is not None and await backend.release(
                one.grant, deadline=deadline, tombstone=True
            ):
                return True
            await backend.withdraw(one.claim, deadline=deadline, tombstone=True)
        except LockError as error:
            self._client.logger.debug("%r is not free of us yet: %s", one.claim.name, error)
            return False
        except Exception:
            # A defect of the backend's: the others must still be told.
            self._client.logger.exception("the backend failed in a withdrawal")
            return False
        return True
