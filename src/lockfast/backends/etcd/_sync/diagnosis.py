# Generated from src/lockfast/backends/etcd/_async/diagnosis.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""What this deployment of etcd can promise, asked of its members."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from lockfast.backends.etcd import refusals, requests, transactions
from lockfast.backends.etcd._sync.members import Members
from lockfast.backends.etcd.findings import Facts, findings
from lockfast.backends.etcd.http2.calls import Refusal
from lockfast.errors import LockError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.backends.etcd.addresses import Address
    from lockfast.backends.etcd.answers import State
    from lockfast.model import Finding
    from lockfast.runtime.clock import Clock

OFTEN = 4
"""So often each address is asked who answers there."""


def diagnosed(
    address: Address, *, asked: float, granted: float | None, seconds: float, clock: Clock
) -> Sequence[Finding]:
    """Return what was found; `granted` is the ttl of a session, if there is one."""
    members = Members(address, clock=clock)
    try:
        return _asked(members, address, asked, granted, clock.now() + seconds)
    finally:
        members.close()


def _asked(
    members: Members, address: Address, asked: float, granted: float | None, deadline: float
) -> Sequence[Finding]:
    told = [_states(members, one, deadline) for one in range(len(address.endpoints))]
    known = members.ask(requests.members(), deadline=deadline)
    alarms = members.ask(requests.alarms(), deadline=deadline)
    shortest = members.ask(requests.grant(1), deadline=deadline)
    if not isinstance(shortest, Refusal):
        members.ask(requests.revoke(shortest.lease), deadline=deadline)
    rights = members.ask(transactions.nothing(address.root), deadline=deadline)
    return findings(
        Facts(
            where=address.where,
            states=[one[0] if one else None for one in told],
            shared=sum(len({state.header.member for state in one}) > 1 for one in told),
            members=None if isinstance(known, Refusal) else known.members,
            alarms=None if isinstance(alarms, Refusal) else alarms.alarms,
            shortest=None if isinstance(shortest, Refusal) else shortest.ttl,
            asked=asked,
            granted=granted,
            user=address.user,
            is_secure=address.is_secure,
            root=address.root.decode(),
            is_permitted=not (isinstance(rights, Refusal) and refusals.is_forbidden(rights)),
        )
    )


def _states(members: Members, number: int, deadline: float) -> list[State]:
    """Return what one address says of itself, asked so often that a load balancer shows."""
    told: list[State] = []
    with suppress(LockError):
        while len(told) < OFTEN:
            state = members.ask_member(number, requests.state(), deadline=deadline)
            if isinstance(state, Refusal):
                break
            told.append(state)
    return told
