"""Which faults a run has: those that were asked for, as far as this machine can make them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.challenge.nemesis.combining import then_killed
from lockfast.challenge.nemesis.on_clients import client_faults
from lockfast.challenge.nemesis.on_ways import way_faults

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.challenge.clients.fleet import Fleet
    from lockfast.challenge.fault import Deployment, Fault


class NoSuchFault(ValueError):
    """A kind that this deployment does not have."""


def chosen(
    kinds: Sequence[str], *, fleet: Fleet, deployment: Deployment
) -> tuple[list[Fault], dict[str, str]]:
    """Return all faults of these kinds, and of those that cannot be made here the reason why."""
    there = all_faults(fleet, deployment)
    unknown = [kind for kind in kinds if kind not in there]
    if unknown:
        raise NoSuchFault(
            f"there is no fault {unknown[0]!r} for {deployment.store}; there are: "
            f"{', '.join(sorted(there))}"
        )
    asked = [there[kind] for kind in kinds]
    not_made = {fault.kind: fault.lacks for fault in asked if fault.lacks}
    return asked, not_made


def all_faults(fleet: Fleet, deployment: Deployment) -> dict[str, Fault]:
    """Return by its kind whatever can be done to these clients and to this deployment."""
    on_ways = way_faults(deployment.ways)
    found: list[Fault] = [*client_faults(fleet, deployment.ways), *on_ways, *deployment.faults()]
    found += [then_killed(fault, fleet) for fault in on_ways if fault.kind.endswith("-held")]
    return {fault.kind: fault for fault in found}
