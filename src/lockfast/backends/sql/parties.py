"""An explicit owner as a store keeps it: any text may name one, and no column holds any text."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lockfast.model import Claim


def party_key(party: str) -> str:
    """Return the explicit owner as 32 digits; it may hold zero bytes and lone surrogates."""
    data = party.encode(errors="surrogatepass")
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def as_stored(claim: Claim) -> Claim:
    """Return the claim as it goes into a row."""
    return claim if claim.party is None else replace(claim, party=party_key(claim.party))
