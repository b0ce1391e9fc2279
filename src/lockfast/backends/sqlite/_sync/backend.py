# Generated from src/lockfast/backends/sqlite/_async/backend.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""`sqlite://`: the embedded default, for many processes of one machine."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from lockfast._sync.backend import Backend
from lockfast._sync.wakeups import Wakeups
from lockfast.backends.sqlite.database import Database
from lockfast.backends.sqlite.subscription import threads as subscription
from lockfast.core.naming import checked_namespace
from lockfast.errors import ConfigurationError
from lockfast.model import Capabilities, Grant, TokenQuality
from lockfast.runtime import forking
from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from lockfast.model import Claim, Crowd, Finding, Held, Holder, Inspection, Renewal
    from lockfast.runtime.clock import Clock

P = ParamSpec("P")
T = TypeVar("T")

GLANCE = 0.3
"""How often the first waiter at a name looks whether those in front of it are alive.

No statement is run for it.
"""

SHORT = 2 * GLANCE
"""Who waits no longer than this looks at once: at its first glance its time might be up."""


class SqliteBackend(Backend):
    """A file that all processes of this machine may open."""

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
        self._early: set[str] = set()
        self._rung: set[str] = set()
        self._database = Database(
            path,
            namespace=checked_namespace(namespace),
            clock=clock,
            create=create_directory,
            synchronous=synchronous,
            tell=self._tell,
        )
        self._subscription = subscription.Subscription(self._database.bell, self._hear, clock=clock)
        forking.forget_in_child(self)

    def try_acquire(self, claim: Claim, *, deadline: float) -> Grant | Held:
        """See the protocol."""
        answer = self._ask(
            self._database.try_acquire,
            claim,
            deadline=deadline,
            was_rung=claim.id in self._rung,
        )
        self._rung.discard(claim.id)
        if isinstance(answer, Grant) or answer.place is None:
            self._forget(claim.id)
        else:
            self._wakeups.expect(claim.id)
            if claim.id in self._early:
                self._early.discard(claim.id)
                self._wakeups.ring(claim.id)
        return answer

    def renew(self, grants: Sequence[Grant], *, deadline: float) -> Sequence[Renewal]:
        """See the protocol."""
        return self._ask_first(self._database.renew, grants, deadline=deadline)

    def hand_over(self, grant: Grant, *, deadline: float) -> Renewal:
        """See the protocol."""
        return self._ask(self._database.hand_over, grant.claim, deadline=deadline)

    def release(self, grant: Grant, *, deadline: float, tombstone: bool) -> bool:
        """See the protocol."""
        return self._ask_first(
            self._database.release, grant, deadline=deadline, tombstone=tombstone
        )

    def withdraw(self, claim: Claim, *, deadline: float, tombstone: bool) -> None:
        """See the protocol."""
        try:
            self._ask(self._database.withdraw, claim, deadline=deadline, tombstone=tombstone)
        finally:
            # Not before: until then it may be told to look, for one in front of it that leaves,
            # and what was noted for it would stay.
            self._forget(claim.id)

    def wait(self, claim: Claim, *, deadline: float) -> None:
        """See the protocol."""
        database, clock = self._database, self._clock
        # Asking again at the deadline is also the safety net for a ring that was lost: at most
        # a window away for the first of ours at the name, who wakes the next when it has left.
        while (now := clock.now()) < deadline:
            is_first = database.waiters.is_first(claim)
            if is_first and deadline - now <= SHORT and database.is_anyone_gone(claim):
                return
            until = min(deadline, now + GLANCE) if is_first else deadline
            if self._wakeups.wait(claim.id, deadline=until, subscription=self._subscription):
                self._rung.add(claim.id)
                return
            if is_first and database.is_anyone_gone(claim):
                return

    def rouse(self, claim: Claim) -> None:
        """See the protocol."""
        self._tell(claim.id)

    def _tell(self, claim_id: str) -> None:
        self._hear(claim_id)
        self._subscription.nudge()

    def _hear(self, claim_id: str) -> None:
        # It may be rung for before its first answer is here, which then finds it noted.
        self._early.add(claim_id)
        if self._wakeups.ring(claim_id):
            self._early.discard(claim_id)

    def _forget(self, claim_id: str) -> None:
        self._wakeups.forget(claim_id)
        self._early.discard(claim_id)
        self._rung.discard(claim_id)

    def inspect(self, name: str, *, deadline: float) -> Inspection:
        """See the protocol."""
        return self._ask(self._database.inspect, name, deadline=deadline)

    def crowds(self, names: Sequence[str], *, deadline: float) -> Sequence[Crowd]:
        """See the protocol."""
        return self._ask(self._database.crowds, names, deadline=deadline)

    def survey(self, prefix: str, *, deadline: float) -> Iterator[Inspection]:
        """See the protocol."""
        for one in self._ask(self._database.survey, prefix, deadline=deadline):
            yield one

    def break_(
        self, name: str, *, token: int | None = None, owner: str | None = None, deadline: float
    ) -> tuple[Holder, ...]:
        """See the protocol."""
        return self._ask(self._database.break_, name, token=token, owner=owner, deadline=deadline)

    def diagnose(self, *, deadline: float) -> Sequence[Finding]:
        """See the protocol."""
        return self._ask(self._database.diagnose, deadline=deadline)

    def disown(self, client: str, *, deadline: float) -> None:
        """See the protocol."""
        self._ask(self._database.disown, client, deadline=deadline)

    def _ask(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        self._database.connection.refuse_inside_another()
        return self._worker.run(function, *args, **kwargs)

    def _ask_first(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        self._database.connection.refuse_inside_another()
        return self._worker.run_first(function, *args, **kwargs)

    def close(self) -> None:
        """See the protocol."""
        self._subscription.close()
        runtime.each_in_turn(partial(self._worker.run, self._database.close), self._worker.stop)

    def after_fork_in_child(self) -> None:
        """Let the child begin with nothing of the parent's."""
        self._worker.after_fork_in_child()
        self._subscription.after_fork_in_child()
