"""Where a store's promise ends: what then happens is counted, and is no fault of the lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.challenge.recorded import Recorded


def reason_to_forgive(recorded: Recorded, at: float) -> str:
    """Return why two may have held at this time, as the store's page has it; empty if they may not.

    What a fault made possible may show until the lease of the time before it is over.
    """
    for strike in recorded.strikes:
        reason = recorded.forgives.get(strike.kind)
        if reason and strike.began <= at <= strike.ended + recorded.patience:
            return reason
    return ""
