# Generated from src/lockfast/backends/sqlite/_async/backend.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""`sqlite://`: the embedded default, for many processes on one machine."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from lockfast.backends._sync.backend import Backend
from lockfast.backends.sqlite import listener_threads
from lockfast.backends.sqlite.database import Database
from lockfast.backends.sqlite.wait_schedule import LIVENESS_CHECK_SECONDS, SHORT_WAIT_SECONDS
from lockfast.backends.waiting._sync.wakeups import Wakeups
from lockfast.core.naming import checked_namespace
from lockfast.errors import ConfigurationError
from lockfast.model import Capabilities, Grant, TokenQuality
from lockfast.runtime import fork
from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from lockfast.model import Claim, Crowd, Finding, Held, Holder, Inspection, Renewal
    from lockfast.runtime.clock import Clock

P = ParamSpec("P")
T = TypeVar("T")


class SqliteBackend(Backend):
    """Locks in a file that all processes on this machine may open."""

    capabilities = Capabilities(
        fair=True,
        shared=True,
        push_wakeup=True,
        explicit_owner=True,
        lock_delay=True,
        token_quality=TokenQuality.BEST_EFFORT,
        ends_by="ttl",
        hands_over=True,
        sequencers=True,
    )
    min_ttl = 0.05
    options = frozenset({"synchronous"})

    def __init__(
        self,
        *,
        path: Path,
        clock: Clock,
        namespace: str = "lockfast",
        create_directory: bool = False,
        synchronous: str = "normal",
    ) -> None:
        if synchronous not in ("normal", "full"):
            raise ConfigurationError(f"synchronous={synchronous!r}: normal or full is accepted")
        self.location = str(path)
        self._clock = clock
        self._worker = runtime.Worker("lockfast-sqlite")
        self._wakeups = Wakeups(clock)
        self._early_wakeups: set[str] = set()
        self._woken: set[str] = set()
        self._database = Database(
            path,
            namespace=checked_namespace(namespace),
            clock=clock,
            create=create_directory,
            synchronous=synchronous,
            tell=self._wake_claim,
        )
        self._subscription = listener_threads.DoorbellListener(
            self._database.bell, self._hear, clock=clock
        )
        fork.reset_in_child(self)

    def try_acquire(self, claim: Claim, *, deadline: float) -> Grant | Held:
        answer = self._ask(
            self._database.try_acquire,
            claim,
            deadline=deadline,
            was_woken=claim.id in self._woken,
        )
        self._woken.discard(claim.id)
        if isinstance(answer, Grant) or answer.place is None:
            self._forget(claim.id)
        else:
            self._wakeups.expect(claim.id)
            if claim.id in self._early_wakeups:
                self._early_wakeups.discard(claim.id)
                self._wakeups.wake(claim.id)
        return answer

    def renew(self, grants: Sequence[Grant], *, deadline: float) -> Sequence[Renewal]:
        return self._ask_first(self._database.renew, grants, deadline=deadline)

    def hand_over(self, grant: Grant, *, deadline: float) -> Renewal:
        return self._ask(self._database.hand_over, grant.claim, deadline=deadline)

    def release(self, grant: Grant, *, deadline: float, tombstone: bool) -> bool:
        return self._ask_first(
            self._database.release, grant, deadline=deadline, tombstone=tombstone
        )

    def withdraw(self, claim: Claim, *, deadline: float, tombstone: bool) -> None:
        try:
            self._ask(self._database.withdraw, claim, deadline=deadline, tombstone=tombstone)
        finally:
            # Forget the claim only now. Until the withdrawal ended, the claim could be woken when a
            # claim ahead of it left, and the record of a wakeup after `_forget` would never be
            # removed.
            self._forget(claim.id)

    def wait(self, claim: Claim, *, deadline: float) -> None:
        database, clock = self._database, self._clock
        # The request at the deadline is also the safety net for a lost wakeup. For our first claim
        # at the name the deadline is at most one admission window away, and when that claim leaves,
        # it wakes our next claim.
        while (now := clock.now()) < deadline:
            is_first = database.waiters.is_first(claim)
            if is_first and deadline - now <= SHORT_WAIT_SECONDS and database.is_any_dead(claim):
                return
            until = min(deadline, now + LIVENESS_CHECK_SECONDS) if is_first else deadline
            if self._wakeups.wait(claim.id, deadline=until, subscription=self._subscription):
                self._woken.add(claim.id)
                return
            if is_first and database.is_any_dead(claim):
                return

    def wake(self, claim: Claim) -> None:
        self._wake_claim(claim.id)

    def _wake_claim(self, claim_id: str) -> None:
        self._hear(claim_id)
        self._subscription.wake_to_check()

    def _hear(self, claim_id: str) -> None:
        # A wakeup may come before the first reply to the claim. Record the wakeup, so that
        # `try_acquire` finds it.
        self._early_wakeups.add(claim_id)
        if self._wakeups.wake(claim_id):
            self._early_wakeups.discard(claim_id)

    def _forget(self, claim_id: str) -> None:
        self._wakeups.forget(claim_id)
        self._early_wakeups.discard(claim_id)
        self._woken.discard(claim_id)

    def inspect(self, name: str, *, deadline: float) -> Inspection:
        return self._ask(self._database.inspect, name, deadline=deadline)

    def crowds(self, names: Sequence[str], *, deadline: float) -> Sequence[Crowd]:
        return self._ask(self._database.crowds, names, deadline=deadline)

    def survey(self, prefix: str, *, deadline: float) -> Iterator[Inspection]:
        for one in self._ask(self._database.survey, prefix, deadline=deadline):
            yield one

    def break_(
        self, name: str, *, token: int | None = None, owner: str | None = None, deadline: float
    ) -> tuple[Holder, ...]:
        return self._ask(self._database.break_, name, token=token, owner=owner, deadline=deadline)

    def diagnose(self, *, deadline: float) -> Sequence[Finding]:
        return self._ask(self._database.diagnose, deadline=deadline)

    def disown(self, client: str, *, deadline: float) -> None:
        self._ask(self._database.disown, client, deadline=deadline)

    def _ask(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        self._database.connection.refuse_inside_another()
        return self._worker.run(function, *args, **kwargs)

    def _ask_first(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        self._database.connection.refuse_inside_another()
        return self._worker.run_first(function, *args, **kwargs)

    def close(self) -> None:
        self._subscription.close()
        runtime.run_all_steps(partial(self._worker.run, self._database.close), self._worker.stop)

    def after_fork_in_child(self) -> None:
        """Start the child without any state of the parent."""
        self._worker.after_fork_in_child()
        self._subscription.after_fork_in_child()
