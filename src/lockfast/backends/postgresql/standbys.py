"""Whether what was committed outlives a failover: what a primary says of those that follow it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockfast.model import Finding

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SYNCHRONOUS = frozenset({"sync", "quorum"})
NOT_WAITING = frozenset({"off", "local"})


@dataclass(frozen=True, slots=True)
class Standby:
    """One that follows; `state` says whether commits wait for it, None if we may not know."""

    name: str | None
    state: str | None


def replication(settings: Mapping[str, str], standbys: Sequence[Standby]) -> list[Finding]:
    """Return what becomes of a lease when a standby takes over."""
    waited_for = settings.get("synchronous_standby_names", "")
    commit = settings.get("synchronous_commit", "on")
    waits = bool(waited_for) and commit not in NOT_WAITING
    there = [one for one in standbys if one.state is None or one.state in SYNCHRONOUS]
    if waits and not there:
        return [
            Finding(
                "error",
                "replication",
                f"every commit waits for a standby (synchronous_standby_names is {waited_for!r}), "
                "and none of them is there: nothing can be locked",
                "bring the standby back, or empty synchronous_standby_names",
            )
        ]
    if not standbys:
        return [Finding("ok", "replication", "no standby follows: nothing fails over to one")]
    if waits:
        return [
            Finding("ok", "replication", "a commit counts when a synchronous standby has it too")
        ]
    remedy = "set synchronous_standby_names"
    if waited_for:
        remedy = f"ALTER ROLE ... SET synchronous_commit = on (it is {commit}), for those who lock"
    return [
        Finding(
            "warning",
            "replication",
            f"commits do not wait for the {len(standbys)} standby(s): a failover forgets leases "
            "that were just granted, and their tokens, so two may both believe they hold a lock",
            f"{remedy}; else only a resource that looks at the token is safe",
        )
    ]
