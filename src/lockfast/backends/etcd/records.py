"""What is kept of a claim and of its hold; pure.

As in the other stores with sessions, and besides when it came, for people; and in a hold how long
it keeps its name closed if its claim is gone.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lockfast.backends.sessions import records
from lockfast.core.trust import DRIFT_RATIO

if TYPE_CHECKING:
    from lockfast.model import Claim


def of_claim(claim: Claim, *, at: float) -> bytes:
    """Return what is kept of a claim that came then."""
    return b'%b, "at": %.3f}' % (records.of_claim(claim)[:-1], at)


def of_hold(claim_record: bytes, *, ttl: float, lock_delay: float) -> bytes:
    """Return what is kept of a claim's hold: its owner may trust it for so long, unheard."""
    return b'%b, "ttl": %.3f, "lock_delay": %.6f}' % (claim_record[:-1], ttl, lock_delay)


def of_closing(claim: Claim, *, seconds: float, at: float) -> bytes:
    """Return what is kept of a hold that is over, and keeps its name closed."""
    return b'%b, "at": %.3f}' % (records.of_closing(claim, seconds=seconds)[:-1], at)


def closed(data: bytes, *, seconds: float) -> bytes:
    """Return a record as that of something that keeps its name closed for so long."""
    return json.dumps({**_fields(data), "closed_for": seconds}).encode()


def lock_delay_in(data: bytes) -> float:
    """Return for how long a hold that was broken keeps its name closed."""
    return _number(_fields(data), "lock_delay")


def grace_in(data: bytes) -> float:
    """Return how long to wait, from the first sight of a hold whose claim is gone.

    Its holder may have renewed just before, and not know that its session was ended; it trusts
    its lease for no longer than the ttl from then. Two clocks may run apart.
    """
    fields = _fields(data)
    if "closed_for" in fields:
        return _number(fields, "closed_for")
    return _number(fields, "ttl") * (1 + DRIFT_RATIO) + _number(fields, "lock_delay")


def at_in(data: bytes) -> float | None:
    """Return when it came, by the clock of whoever wrote it."""
    return _number(_fields(data), "at") or None


def _fields(data: bytes) -> dict[str, object]:
    try:
        found = json.loads(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _number(fields: dict[str, object], name: str) -> float:
    value = fields.get(name)
    return float(value) if isinstance(value, int | float) else 0.0
