"""Claims for backends that have no client around them."""

from __future__ import annotations

import os
from typing import Any

from lockfast.model import Claim, Owner

TTL = 60.0
"""Longer than any test: what is gone was not ended by its time."""


def claim_to(name: str, **fields: Any) -> Claim:
    """Return a claim of somebody new."""
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
