# Generated from src/holdfast/_async/backends/sqlite.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""`sqlite://`: the embedded default, for many processes of one machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast._sync.backend import Backend
from holdfast.core.naming import checked_namespace
from holdfast.embedded.database import Database
from holdfast.errors import ConfigurationError
from holdfast.model import Capabilities, TokenQuality
from holdfast.runtime import forking
from holdfast.runtime import threads as runtime

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from holdfast.model import Claim, Finding, Grant, Held, Holder, Inspection, Renewal
    from holdfast.runtime.clock import Clock

GLANCE = 0.3
"""How often a waiter looks whether those in front of it are alive; no statement is run."""


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
    )
    min_ttl = 0.05
    options = frozenset({"synchronous"})

    def __init__(
        self,
        *,
        path: Path,
        clock: Clock,
        namespace: str = "holdfast",
        create_directory: bool = False,
        synchronous: str = "normal",
    ) -> None:
        if synchronous not in ("normal", "full"):
            raise ConfigurationError(f"synchronous={synchronous!r}: normal or full is accepted")
        self.location = str(path)
        self._clock = clock
        self._worker = runtime.Worker("holdfast-sqlite")
        self._database = Database(
            path,
            namespace=checked_namespace(namespace),
            clock=clock,
            create=create_directory,
            synchronous=synchronous,
        )
        forking.forget_in_child(self)

    def try_acquire(self, claim: Claim, *, deadline: float) -> Grant | Held:
        """See the protocol."""
        return self._worker.run(self._database.try_acquire, claim, deadline=deadline)

    def renew(self, grants: Sequence[Grant], *, deadline: float) -> Sequence[Renewal]:
        """See the protocol."""
        return self._worker.run(self._database.renew, grants, deadline=deadline)

    def release(self, grant: Grant, *, deadline: float, tombstone: bool) -> bool:
        """See the protocol."""
        return self._worker.run(
            self._database.release, grant, deadline=deadline, tombstone=tombstone
        )

    def withdraw(self, claim: Claim, *, deadline: float, tombstone: bool) -> None:
        """See the protocol."""
        self._worker.run(self._database.withdraw, claim, deadline=deadline, tombstone=tombstone)

    def wait(self, claim: Claim, *, deadline: float) -> None:
        """See the protocol."""
        database, clock = self._database, self._clock
        bell = database.bells.socket_of(claim.id)
        if bell is None:
            return
        # Asking again at the deadline, at most a window away, is also the safety net for a
        # ring that was lost.
        while (now := clock.now()) < deadline:
            glance = min(deadline, now + GLANCE)
            if runtime.readable(bell, deadline=glance, clock=clock):
                if database.bells.was_rung(claim.id):
                    return
            elif database.is_anyone_gone(claim.id):
                return

    def rouse(self, claim: Claim) -> None:
        """See the protocol."""
        self._database.bells.ring_own(claim.id)

    def inspect(self, name: str, *, deadline: float) -> Inspection:
        """See the protocol."""
        return self._worker.run(self._database.inspect, name, deadline=deadline)

    def survey(self, prefix: str, *, deadline: float) -> Iterator[Inspection]:
        """See the protocol."""
        for one in self._worker.run(self._database.survey, prefix, deadline=deadline):
            yield one

    def break_(
        self, name: str, *, token: int | None = None, owner: str | None = None, deadline: float
    ) -> tuple[Holder, ...]:
        """See the protocol."""
        return self._worker.run(
            self._database.break_, name, token=token, owner=owner, deadline=deadline
        )

    def diagnose(self, *, deadline: float) -> Sequence[Finding]:
        """See the protocol."""
        return self._worker.run(self._database.diagnose, deadline=deadline)

    def disown(self, client: str, *, deadline: float) -> None:
        """See the protocol."""
        self._worker.run(self._database.disown, client, deadline=deadline)

    def close(self) -> None:
        """See the protocol."""
        self._worker.run(self._database.close)
        self._worker.stop()

    def after_fork_in_child(self) -> None:
        """Let the child begin with nothing of the parent's."""
        self._worker.after_fork_in_child()
