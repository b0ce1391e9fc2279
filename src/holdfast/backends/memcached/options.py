"""What memcached adds to the options of a client."""

from __future__ import annotations

from holdfast.errors import ConfigurationError

_WORDS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def checked_tokens(value: object) -> bool:
    """Return whether leases get tokens made of this machine's clock."""
    found = _WORDS.get(str(value).lower())
    if found is None:
        raise ConfigurationError(f"unsafe_clock_tokens={value!r}: true or false is accepted")
    return found
