"""What is kept in the store: of a name its capacity, of a claim its owner, of both a format."""

from __future__ import annotations

import json
from json.encoder import encode_basestring_ascii as json_string
from typing import TYPE_CHECKING

from lockfast.backends.sessions.refusals import Unreadable
from lockfast.model import Owner

if TYPE_CHECKING:
    from lockfast.model import Claim

FORMAT = 1


def of_door(capacity: int) -> bytes:
    """Return what is kept of a name."""
    return b'{"format": %d, "capacity": %d}' % (FORMAT, capacity)


def capacity_in(data: bytes, *, key: str) -> int:
    """Return the capacity that is kept of a name; refuse what a newer Lockfast wrote."""
    try:
        fields = json.loads(data)
        written, capacity = int(fields["format"]), int(fields.get("capacity", 0))
    except (ValueError, KeyError, TypeError, AttributeError):
        written = capacity = 0
    if written > FORMAT:
        raise Unreadable(
            f"{key} was written by a newer Lockfast (format {written}, this one knows {FORMAT}); "
            "upgrade this program"
        )
    if capacity < 1:
        raise Unreadable(f"{key} is a node of another program; choose a namespace of your own")
    return capacity


def of_claim(claim: Claim) -> bytes:
    """Return what is kept of a claim."""
    return b'{"format": %d, "owner": %b}' % (FORMAT, json_string(claim.owner).encode())


def of_closing(claim: Claim, *, seconds: float) -> bytes:
    """Return what is kept of a claim that is over, while it keeps its name closed."""
    record = of_claim(claim)
    return b'%b, "closed_for": %.6f}' % (record[:-1], seconds)


def closed_for_in(data: bytes) -> float | None:
    """Return for how long from its last change it keeps its name closed; None if it holds."""
    try:
        seconds = json.loads(data).get("closed_for")
    except (ValueError, AttributeError):
        return None
    return float(seconds) if isinstance(seconds, int | float) else None


def owner_in(data: bytes) -> Owner:
    """Return whose claim it is; what cannot be read is shown as it is."""
    try:
        return Owner.from_text(str(json.loads(data)["owner"]))
    except (ValueError, KeyError, TypeError):
        return Owner(host="unknown", pid=0, label=data[:80].decode(errors="replace"))
