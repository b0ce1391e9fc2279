"""What a holder must see when the store lost its lock or never made it durable."""

from __future__ import annotations

from typing import Any

import pytest
from guarded import Guarded

from lockfast import BackendUnavailable, LeaseLost, StaleToken


def is_told_and_fenced(holder: Any, lease: Any, successor: Any, guarded: Guarded) -> None:
    """Check that a holder whose lock was granted to another learns of it and can do no harm."""
    assert successor.token > lease.token
    guarded.write(successor.name, successor.token)
    assert holder.is_lost(lease, within=20.0)
    assert lease.lost.reason == "taken"
    with pytest.raises(StaleToken):
        guarded.write(lease.name, lease.token)
    with pytest.raises(LeaseLost):
        lease.check()


def is_given_back(before: list[Any], leases: list[Any], after: list[Any]) -> None:
    """Check that without durability locks are refused, leases are lost and nothing is left."""
    for one, lease in zip(before, leases, strict=True):
        with pytest.raises(BackendUnavailable):
            one.acquire(f"door {one.flavour}", timeout=3)
        # Renewals that are not durable extend nothing.
        assert one.is_lost(lease, within=20.0)
        with pytest.raises(LeaseLost):
            lease.check()
    for one in after:
        assert one.survey("door") == []
