"""A cycle of waiting within one client: whoever would close it is told at once.

Only what is certain counts. A wait that ends by itself soon, can be or was cancelled, or may be
served by another shard is no link; nor is a lease that ends by itself, that somebody else may
release than who waits, or that nobody has because an interrupt struck before it was returned or
while it was released: the background ends that. What other clients hold is not known here, so
they are taken to go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast._async.hold_registry import wait_at
from lockfast.core.deadlocks import Owned, cycle_of
from lockfast.core.mostly_one import each
from lockfast.errors import WouldDeadlock
from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast._async.acquiring import AsyncAcquisition
    from lockfast._async.client import AsyncClient
    from lockfast._async.hold import AsyncHold
    from lockfast.core.deadlocks import Link, Wait

NEVER = float("inf")
SOON = 1.0
"""A wait that ends by its own timeout within so many seconds is no link of a cycle: so programs
wait that hold something, ask for more, and begin anew when they do not get it."""


def refuse_cycle(
    client: AsyncClient, attempt: AsyncAcquisition, *, place: int | None, left: float
) -> None:
    """Know that an acquire begins to wait, or raise WouldDeadlock if that would close a cycle.

    In one step: of two that close it together, the second alone is told.
    """
    may_be_cancelled = attempt.cancel is not None and not attempt.ends_by_loss_alone
    if left < SOON or may_be_cancelled or attempt.looking is not None:
        return
    if attempt.claim.capacity == 1 and not client.holds.has_any():
        # Nobody here holds anything, nor will this one while it waits. So it is in nobody's way,
        # now or later; only where a name is shared is it to be ahead in line, too.
        return
    with client.state:
        cycle = _closed_by(client, wait_at(place, of=attempt))
        if not cycle:
            client.holds.begins_waiting(attempt, place=place)
            return
    names = [one.name for one in cycle]
    raise WouldDeadlock(_sentence(cycle), name=attempt.claim.name, cycle=names)


def _closed_by(client: AsyncClient, wait: Wait[runtime.Context]) -> Sequence[Link[runtime.Context]]:
    waits: dict[runtime.Context, Wait[runtime.Context]] = {}
    held: list[Owned[runtime.Context]] = []
    to_look_at = [wait]
    now = client.clock.now()

    def lasts(one: AsyncAcquisition) -> bool:
        return client.is_asking(one) and one.waits_beyond(now + SOON)

    names = set[str]()
    while to_look_at:
        one = to_look_at.pop()
        if one.who in waits:
            continue
        waits[one.who] = one
        if one.name in names:
            continue
        names.add(one.name)
        # Those in line for a name go on sooner or later unless one of its holders waits too. So
        # in a crowd, where none does, nobody ahead is looked at: thousands of waiters that each
        # looked at all others kept the event loop busy until leases were lost.
        is_stuck = False
        for hold in client.holds.on(one.name):
            who = hold.context()
            if who is None or not _is_bound(hold, who):
                continue
            held.append(Owned(who, one.name, hold.grant.claim.weight))
            its_wait = client.holds.wait_of(who, lasts=lasts)
            if its_wait is not None:
                to_look_at.append(its_wait)
            is_stuck = is_stuck or its_wait is not None or who in waits
        if is_stuck and one.capacity > 1:
            # Only who shares may wait for somebody that is itself in line, as for a writer.
            to_look_at += client.holds.waits_at(one.name, lasts=lasts)
    if not held:
        return ()
    return cycle_of(wait.who, waits.values(), held)


def _is_bound(hold: AsyncHold, who: runtime.Context) -> bool:
    """Whether nobody but who waits ends the hold: it is in its block, or in its hands alone."""
    if not hold.renews or hold.capped_at != NEVER or not hold.has_handles():
        return False
    if any(block.context is who for block in each(hold.blocks)):
        return True
    # By `lock.release()`, which only who has acquired can call; of several names that are taken
    # together, nobody has any before all are there.
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
