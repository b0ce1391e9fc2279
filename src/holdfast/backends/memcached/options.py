"""What memcached adds to the options of a lock, and what it cannot keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.backends.memcached.records import LONGEST_TTL
from holdfast.errors import ConfigurationError

if TYPE_CHECKING:
    from holdfast.model import Claim

_WORDS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def checked_tokens(value: object) -> bool:
    """Return whether leases get tokens made of this machine's clock."""
    found = _WORDS.get(str(value).lower())
    if found is None:
        raise ConfigurationError(f"unsafe_clock_tokens={value!r}: true or false is accepted")
    return found


def checked_claim(claim: Claim) -> None:
    """Refuse what memcached would take for a date, and end at once."""
    longest = max(claim.ttl, claim.min_hold)
    if longest > LONGEST_TTL:
        which = "ttl" if claim.ttl == longest else "min_hold"
        raise ConfigurationError(
            f"{which}={longest:g} is longer than memcached keeps anything by a number of seconds: "
            f"at most 30 days, {LONGEST_TTL:.0f} s"
        )
