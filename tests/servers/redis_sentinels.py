"""Masters with their Sentinels that the tests of one folder share."""

from __future__ import annotations

from servers.sharing import shared_in_its_room

from lockfast_challenge.servers.certificates import certificates
from lockfast_challenge.servers.redis_sentinel import Sentinels


@shared_in_its_room
def shared_sentinels() -> Sentinels:
    """Return servers that all tests of this folder share; each uses its own namespace."""
    # None of these tests ends the master; with a short timeout, a slow moment would replace it.
    return Sentinels(down_after=20.0).start()


@shared_in_its_room
def shared_closed_sentinels() -> Sentinels:
    """Return servers and Sentinels with TLS and a password each, for all tests of this folder."""
    # None of these tests ends the master, see above; a requested failover does not wait for the
    # timeout.
    closed = {"tls": certificates(), "password": "s3rver", "sentinel_password": "s3ntinel"}
    return Sentinels(**closed, down_after=20.0).start()
