"""Claims for backends without a client."""

from __future__ import annotations

import os
from typing import Any

from lockfast.model import Claim, Owner

TTL = 60.0
"""A ttl longer than any test, in seconds: nothing ends by expiry."""


def claim_to(name: str, **fields: Any) -> Claim:
    """Return a new claim."""
    values: dict[str, Any] = {
        "id": os.urandom(16).hex(),
        "name": name,
        "client": "raw",
        "owner": Owner(host="raw", pid=1, label=fields.pop("label", "")).to_text(),
        "weight": 1,
        "capacity": 1,
        "ttl": TTL,
    }
    return Claim(**{**values, **fields})
