"""Refuses deadlocks within one client, and warns of owners that are most likely not intended."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING

from lockfast.client._async.handle import each
from lockfast.client._async.hold import wait_at
from lockfast.core.deadlocks import Owned, cycle_of
from lockfast.core.naming import unfilled_field
from lockfast.errors import WouldDeadlock
from lockfast.model import FOREVER
from lockfast.observe.patterns import pattern_of
from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.client._async.acquisition import AsyncAcquisition
    from lockfast.client._async.client import AsyncClient
    from lockfast.client._async.hold import AsyncHold
    from lockfast.core.deadlocks import Link, Wait

# An acquire that would close a cycle of waits within one client fails at once.
#
# Only certain links count. A wait is not a link in a cycle if it times out soon, if it can be or
# was cancelled, or if another shard may serve it. A lease is not a link if it ends without a
# release, or if a thread or task other than the waiter may release it. A lease that an interrupt
# left without a caller is not a link either, because the background ends it. Other clients are
# assumed to make progress, because their holds are not known here.

CYCLE_RECHECK_SECONDS = 1.0
"""A wait that times out within this many seconds is not a link in a cycle. Programs use such a
short timeout when they hold one lock, ask for another, and start over if they do not get the second
lock.
"""


def refuse_cycle(
    client: AsyncClient, attempt: AsyncAcquisition, *, place: int | None, left: float
) -> None:
    """Record that an acquire begins to wait, or raise WouldDeadlock if that closes a cycle.

    The check and the record are one step. So if two acquires together close a cycle, only the
    second fails.
    """
    may_be_cancelled = attempt.cancel is not None and not attempt.is_ended_only_by_loss
    if left < CYCLE_RECHECK_SECONDS or may_be_cancelled or attempt.looking is not None:
        return
    if attempt.claim.capacity == 1 and not client.holds.has_any():
        # This client holds nothing, and this acquire will hold nothing while it waits, so it never
        # blocks anyone. (A claim blocks others by being ahead in line only at a name that can be
        # shared.)
        return
    with client.state:
        cycle = _closed_by(client, wait_at(place, of=attempt))
        if not cycle:
            client.holds.record_wait(attempt, place=place)
            return
    names = [one.name for one in cycle]
    raise WouldDeadlock(_sentence(cycle), name=attempt.claim.name, cycle=names)


def _closed_by(client: AsyncClient, wait: Wait[runtime.Context]) -> Sequence[Link[runtime.Context]]:
    waits: dict[runtime.Context, Wait[runtime.Context]] = {}
    held: list[Owned[runtime.Context]] = []
    unvisited = [wait]
    now = client.clock.now()

    def lasts(one: AsyncAcquisition) -> bool:
        return client.is_registered(one) and one.waits_beyond(now + CYCLE_RECHECK_SECONDS)

    names = set[str]()
    while unvisited:
        one = unvisited.pop()
        if one.who in waits:
            continue
        waits[one.who] = one
        if one.name in names:
            continue
        names.add(one.name)
        # Unless a holder of the name waits for something itself, the line of the name moves on
        # sooner or later. So if no holder waits, the claims ahead in line are not examined.
        # Otherwise thousands of waiters that each examine all others would keep the event loop busy
        # until leases were lost.
        is_stuck = False
        for hold in client.holds.on(one.name):
            who = hold.context()
            if who is None or not _is_bound(hold, who):
                continue
            held.append(Owned(who, one.name, hold.grant.claim.weight))
            its_wait = client.holds.wait_of(who, lasts=lasts)
            if its_wait is not None:
                unvisited.append(its_wait)
            is_stuck = is_stuck or its_wait is not None or who in waits
        if is_stuck and one.capacity > 1:
            # A waiter, such as a writer, can block another waiter only at a name that can be
            # shared.
            unvisited += client.holds.waits_at(one.name, lasts=lasts)
    if not held:
        return ()
    return cycle_of(wait.who, waits.values(), held)


def _is_bound(hold: AsyncHold, who: runtime.Context) -> bool:
    """Return whether only `who` can end the hold.

    This is so if a block of `who` will end the hold, or if no caller has a lease on it.
    """
    if not hold.renews or hold.capped_at != FOREVER or not hold.has_handles():
        return False
    if any(block.context is who for block in each(hold.blocks)):
        return True
    # Without a lease, a hold can only be ended with `lock.release()`, by the thread or task that
    # acquired it. If several names are taken together, no caller has a lease on one of them before
    # all are granted.
    return all(one.is_under_way() or not one.is_kept() for one in hold.handles())


def _sentence(cycle: Sequence[Link[runtime.Context]]) -> str:
    parts = []
    for number, one in enumerate(cycle):
        other = runtime.context_name(cycle[(number + 1) % len(cycle)].who)
        why = "is ahead in line" if one.is_ahead else "holds"
        parts.append(f"{runtime.context_name(one.who)} waits for {one.name!r}, which {other} {why}")
    return (
        f"waiting for {cycle[0].name!r} would never end: {'; '.join(parts)}. Take them in one "
        "order everywhere, or together: locks.all()"
    )


# Warnings about likely mistakes: an unintended owner, or a name with an unfilled field.
#
# An unintended owner may be a parent task, or all tasks of a loop together.


def warn_of_parent_owner(client: AsyncClient, name: str) -> None:
    """Warn if the current task begins to wait for a name that an ancestor of the task holds."""
    for parent in runtime.task_ancestors():
        if client.holds.of(parent, name) is not None:
            warnings.warn(
                f"this task waits for {name!r}, which the task that started it holds "
                f"({runtime.context_name(parent)}): a child task is another owner, so this "
                "never ends if the parent waits for it",
                RuntimeWarning,
                stacklevel=_level_of_caller(),
            )


def warn_of_shared_owner(name: str) -> None:
    """Warn about a re-entry that may come from another task that counts as the same owner."""
    if runtime.has_tasks():
        warnings.warn(
            f"{name!r} is entered again in a thread that runs an event loop: to the sync flavour "
            "all tasks of the loop are one owner, so they do not keep each other out; use "
            f"{runtime.OTHER_CLIENT}",
            RuntimeWarning,
            stacklevel=_level_of_caller(),
        )


WARNED_PATTERNS_MAX = 256
"""Maximum number of name patterns for which a client remembers that it has warned."""


def warn_of_braces(client: AsyncClient, name: str) -> None:
    """Warn, once per pattern of names, about `lock("order:{order_id}")` without the `f`.

    Such a name is legal, but all orders then share one lock.
    """
    field, pattern = unfilled_field(name), pattern_of(name)
    if field is None or pattern in client.warned_patterns:
        return
    if len(client.warned_patterns) >= WARNED_PATTERNS_MAX:
        return
    client.warned_patterns.add(pattern)
    warnings.warn(
        f"the lock name {name!r} contains {field}, which is not filled in here, so all callers "
        'share one lock. If you meant an f-string, write f"..."; only @locks.locked(...) fills in '
        "such fields, from the arguments of the call",
        RuntimeWarning,
        stacklevel=_level_of_caller(),
    )


def _level_of_caller() -> int:
    """Return the stack level of the first frame outside the library, for warnings."""
    level, frame = 1, sys._getframe(1)  # noqa: SLF001 - the only way to get a frame
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("lockfast."):
        level, frame = level + 1, frame.f_back
    return level
