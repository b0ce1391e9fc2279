"""The text by which a lease goes from one process to another.

It names the claim, which is all that a store asks for: whoever has the text can renew and
release. So it is a secret as long as the lease lasts, like the lease itself.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import TYPE_CHECKING

from lockfast.core.naming import checked_name
from lockfast.core.packing import packed, unpacked
from lockfast.errors import ConfigurationError
from lockfast.model import Claim, Grant
from lockfast.options import checked_permits, checked_ttl

if TYPE_CHECKING:
    from lockfast.core.packing import Kinds

FORMAT = "lockfast-lease-1:"
_TYPES: dict[str, Kinds] = {
    "id": str,
    "name": str,
    "weight": int,
    "capacity": int,
    "ttl": (int, float),
    "party": (str, type(None)),
    "lock_delay": (int, float),
    "min_hold": (int, float),
    "token": (int, type(None)),
}


def to_text(grant: Grant) -> str:
    """Return what `from_text` reads."""
    fields = {
        field: grant.token if field == "token" else getattr(grant.claim, field) for field in _TYPES
    }
    return packed(FORMAT, fields)


def from_text(text: str, *, client: str, owner: str) -> Grant:
    """Return the grant, now that client's; anything but such a text is refused."""
    if not isinstance(text, str):
        awaited = "; await it" if inspect.isawaitable(text) else ""
        raise TypeError(f"what `detach` returned is a str, not {type(text).__name__}{awaited}")
    fields = unpacked(FORMAT, text, _TYPES)
    if fields is None:
        # What was given is not shown: it may be a real one, cut off.
        raise ConfigurationError(
            "this is not the text of a lease: give it as `lease.detach()` returned it"
        )
    token = fields.pop("token")
    claim = Claim(**fields, client=client, owner=owner)
    # It went through other hands.
    checked_name(claim.name)
    checked_ttl(claim.ttl)
    checked_permits(claim.weight, capacity=claim.capacity)
    return Grant(claim, token, claim.ttl)


def nobodys(grant: Grant) -> Grant:
    """Return the grant as it is stored while it is on its way: no client's."""
    return replace(grant, claim=replace(grant.claim, client=""))
