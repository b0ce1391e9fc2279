"""Requests that the store has not confirmed yet: claims to withdraw, grants to release.

Cleanup never stops at an error. When we withdraw, release, close or reap, *every* error means "not
done yet", even a refusal (a revoked permission, a full server), and each step of closing runs even
if an earlier step failed.

The requests run in separate tasks or threads, one per server of the store. These exist only while
there is something to send. A server that does not answer delays only its own requests, and neither
a renewal nor the cleanup at another server.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from lockfast.core.backoff import delay
from lockfast.errors import LockError
from lockfast.model import FOREVER
from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from lockfast.client._async.client import AsyncClient
    from lockfast.events import StoreRequest
    from lockfast.model import Claim, Grant


@dataclass(slots=True)
class CleanupItem:
    """A claim that the store may still have, and the time after which that no longer matters."""

    claim: Claim
    grant: Grant | None
    server: str
    due: float
    give_up: float
    attempt: int = 0


@dataclass(slots=True)
class CleanupRunner:
    """The task or thread that cleans up at one server; `task` is None until it is started."""

    kick: runtime.WakeEvent
    task: runtime.Task | None = None

    def is_gone(self) -> bool:
        """Return whether the task ended unnoticed, as when a loop shuts down and cancels it."""
        return self.task is not None and not self.task.is_alive()


class AsyncCleanupQueue:
    """Repeats withdrawals and releases until the store has confirmed them."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._open: list[CleanupItem] = []
        self._runners: dict[str, CleanupRunner] = {}
        self._ends_at = FOREVER
        self._is_stopping = False

    def withdraw_later(self, claim: Claim) -> None:
        """Withdraw a claim in the background, because the store has not answered."""
        self._add(claim, None)

    def release_later(self, grant: Grant) -> None:
        """Release a grant in the background; a withdrawal would not keep its min_hold."""
        self._add(grant.claim, grant)

    def is_pending(self, claim: Claim) -> bool:
        """Return whether the withdrawal or release of this claim is still pending."""
        with self._client.state:
            return any(one.claim.id == claim.id for one in self._open)

    @property
    def are_done(self) -> bool:
        """Whether nothing is pending, because every request is answered or no longer matters."""
        return not self._open

    def _add(self, claim: Claim, grant: Grant | None) -> None:
        # A store with ttls forgets a hold after the ttl, and drops a waiting claim that does not
        # answer when its turn comes. So we give up after twice the ttl and a minute. A store with
        # sessions keeps holds and waiting claims for as long as this client keeps the session
        # alive, so there the cleanup ends only with a reply, or with the session.
        now = self._client.clock.now()
        give_up = now + 2 * claim.ttl + 60 if self._client.life.ends_by_itself else FOREVER
        server = self._client.backend.server_of(claim.name)
        with self._client.state:
            self._open.append(CleanupItem(claim, grant, server, now, give_up))
            runner = self._runners.get(server)
            if runner is not None:
                runner.kick.set()
        self.resume()

    def resume(self) -> None:
        """Make sure that a task or thread works on the pending items."""
        if self._open and not self._is_stopping:
            self._begin()

    def _begin(self) -> None:
        with self._client.state:
            for server in {one.server for one in self._open}:
                runner = self._runners.get(server)
                if runner is not None and not runner.is_gone():
                    continue
                runner = CleanupRunner(runtime.WakeEvent())
                run = partial(self._run, server, runner.kick)
                try:
                    # Record the runner before it starts, because an eager task may end before
                    # `spawn` returns.
                    self._runners[server] = runner
                    runner.task = runtime.spawn(run, name="lockfast-followups")
                except RuntimeError as error:
                    # No thread can be started right now; the watchdog tries again.
                    self._client.logger.warning("follow-ups have to wait: %s", error)
                finally:
                    if runner.task is None:
                        self._runners.pop(server, None)

    def hurry(self, deadline: float) -> None:
        """Note that the client is closing, and no wait for a reply may outlast this deadline."""
        self._ends_at = deadline

    async def stop(self) -> None:
        """End the background; each pending item gets one last try, within one request timeout."""
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
        """Start empty in the child, because the parent cleans up its own claims."""
        self.__init__(self._client)  # type: ignore[misc]

    async def _run(self, server: str, kick: runtime.WakeEvent) -> None:
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

    async def _try(self, one: CleanupItem) -> None:
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
        # Another server may have taken over the name from the server that did not answer.
        server = client.backend.server_of(one.claim.name)
        if server != one.server:
            one.server = server
            self.resume()

    async def _tell(self, one: CleanupItem, *, deadline: float) -> bool:
        """Send the request; return whether the store has answered."""
        backend = self._client.backend
        try:
            if one.grant is not None and await backend.release(
                one.grant, deadline=deadline, tombstone=True
            ):
                return True
            await backend.withdraw(one.claim, deadline=deadline, tombstone=True)
        except Exception as error:  # noqa: BLE001 - logged and retried
            self.report_error(error, "withdraw" if one.grant is None else "release", one.claim)
            return False
        return True

    def report_error(self, error: Exception, request: StoreRequest, claim: Claim) -> None:
        """Report that a cleanup is not done yet, and why."""
        if isinstance(error, LockError):
            self._client.dispatcher.failed(request, error, claim)
        else:
            # This is a defect in the backend, which must not stop the rest of the cleanup.
            self._client.logger.error("the backend failed in a %s", request, exc_info=error)
