"""What the store has not done yet, and must still be told: claims to withdraw, grants to release.

Ending paths never give up: to withdraw, release, close and sweep, *every* error means "not done
yet", also a refusal (a right that was taken away, a server that is full), and every step of closing
runs whatever the one before raised.

In tasks or threads of their own, one for each server of the store, which are there only while
there is something to tell. A server that does not answer keeps its own waiting, and nobody's
renewal, nor what another server must be told.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from lockfast.core.backoff import delay
from lockfast.errors import LockError
from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from lockfast._async.client import AsyncClient
    from lockfast.events import StoreRequest
    from lockfast.model import Claim, Grant

NEVER = float("inf")


@dataclass(slots=True)
class Followup:
    """A claim that the store may still know, and until when that could matter."""

    claim: Claim
    grant: Grant | None
    server: str
    due: float
    give_up: float
    attempt: int = 0


@dataclass(slots=True)
class Runner:
    """Who tells one server; without a task it is about to begin."""

    kick: runtime.Event
    task: runtime.Task | None = None

    def is_gone(self) -> bool:
        """Whether it ended without a word: a loop that shuts down cancels every task."""
        return self.task is not None and not self.task.is_alive()


class AsyncFollowups:
    """Goes on telling the store until it has done it."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._open: list[Followup] = []
        self._runners: dict[str, Runner] = {}
        self._ends_at = NEVER
        self._is_stopping = False

    def withdraw_later(self, claim: Claim) -> None:
        """Go on withdrawing a claim that the store did not answer for."""
        self._add(claim, None)

    def release_later(self, grant: Grant) -> None:
        """Go on releasing: not withdrawing, for a release keeps its min_hold."""
        self._add(grant.claim, grant)

    def is_about(self, claim: Claim) -> bool:
        """Whether the store is still to be told that this claim is over."""
        with self._client.state:
            return any(one.claim.id == claim.id for one in self._open)

    @property
    def are_done(self) -> bool:
        """Whether the store has answered everything, or nothing of it matters any more."""
        return not self._open

    def _add(self, claim: Claim, grant: Grant | None) -> None:
        # The store forgets it by itself: a hold after its ttl, a waiting claim when its turn
        # is not answered. So we give up after twice that. Not so where a session carries it,
        # which this client keeps alive: there only an answer ends it, or the session's end.
        now = self._client.clock.now()
        give_up = now + 2 * claim.ttl + 60 if self._client.life.ends_by_itself else NEVER
        server = self._client.backend.server_of(claim.name)
        with self._client.state:
            self._open.append(Followup(claim, grant, server, now, give_up))
            runner = self._runners.get(server)
            if runner is not None:
                runner.kick.set()
        self.go_on()

    def go_on(self) -> None:
        """See to it that somebody runs them."""
        if self._open and not self._is_stopping:
            self._begin()

    def _begin(self) -> None:
        with self._client.state:
            for server in {one.server for one in self._open}:
                runner = self._runners.get(server)
                if runner is not None and not runner.is_gone():
                    continue
                runner = Runner(runtime.Event())
                run = partial(self._run, server, runner.kick)
                try:
                    # Known before it begins: an eager task may end before `spawn` returns.
                    self._runners[server] = runner
                    runner.task = runtime.spawn(run, name="lockfast-followups")
                except RuntimeError as error:
                    # No thread is to be had just now; the watchdog comes by again.
                    self._client.logger.warning("follow-ups have to wait: %s", error)
                finally:
                    if runner.task is None:
                        self._runners.pop(server, None)

    def hurry(self, deadline: float) -> None:
        """Know that the client closes, and wait for no answer longer than that."""
        self._ends_at = deadline

    async def stop(self) -> None:
        """End the background; what is open is tried a last time, together as long as one."""
        self._ends_at = min(self._ends_at, self._client.request_deadline())
        if self._open:
            self._begin()
        self._is_stopping = True
        with self._client.state:
            runners = list(self._runners.values())
        for one in runners:
            one.kick.set()
        for one in runners:
            if one.task is not None:
                await one.task.join()
        self._open.clear()

    def after_fork_in_child(self) -> None:
        """Start anew: the parent's are the parent's."""
        self.__init__(self._client)  # type: ignore[misc]

    async def _run(self, server: str, kick: runtime.Event) -> None:
        client = self._client
        is_last = False
        while not is_last:
            kick.clear()
            is_last = self._is_stopping
            now = client.clock.now()
            with client.state:
                mine = [one for one in self._open if one.server == server]
                if not mine:
                    self._runners.pop(server, None)
                    return
            due = [one for one in mine if is_last or now >= one.due]
            for one in due:
                await self._try(one)
                if self._is_stopping and not is_last:
                    break
            if not due:
                next_at = min(one.due for one in mine)
                await runtime.wait_for(kick, deadline=next_at, clock=client.clock)

    async def _try(self, one: Followup) -> None:
        client = self._client
        deadline = min(client.request_deadline(), self._ends_at)
        is_done = client.clock.now() < deadline and await self._tell(one, deadline=deadline)
        now = client.clock.now()
        one.attempt += 1
        one.due = now + delay(one.attempt, jitter=client.clock.jitter())
        if is_done or now >= one.give_up:
            with client.state:
                if one in self._open:
                    self._open.remove(one)
            return
        # Another server may have taken the place of the one that did not answer.
        server = client.backend.server_of(one.claim.name)
        if server != one.server:
            one.server = server
            self.go_on()

    async def _tell(self, one: Followup, *, deadline: float) -> bool:
        """Whether the store has answered."""
        backend = self._client.backend
        try:
            if one.grant is not None and await backend.release(
                one.grant, deadline=deadline, tombstone=True
            ):
                return True
            await backend.withdraw(one.claim, deadline=deadline, tombstone=True)
        except Exception as error:  # noqa: BLE001 - it is told, and tried again
            self.tell_of(error, "withdraw" if one.grant is None else "release", one.claim)
            return False
        return True

    def tell_of(self, error: Exception, request: StoreRequest, claim: Claim) -> None:
        """Tell that something is not ended yet, and why."""
        if isinstance(error, LockError):
            self._client.telling.failed(request, error, claim)
        else:
            # A defect of the backend: what else is to be ended must still be told.
            self._client.logger.error("the backend failed in a %s", request, exc_info=error)
