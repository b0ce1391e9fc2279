"""Masters with their Sentinels that the tests of one room share."""

from __future__ import annotations

from servers.sharing import shared_in_its_room

from lockfast.challenge.servers.certificates import certificates
from lockfast.challenge.servers.redis_sentinels import Sentinels


@shared_in_its_room
def shared_sentinels() -> Sentinels:
    """Return servers that all tests of this room share; each uses its own namespace."""
    # None of them ends the master; a short patience would replace it when it is slow once.
    return Sentinels(down_after=20.0).start()


@shared_in_its_room
def shared_closed_sentinels() -> Sentinels:
    """Return servers and Sentinels with TLS and a password each, for all tests of this room."""
    # None of them ends the master, see above; a failover that is ordered does not wait for it.
    closed = {"tls": certificates(), "password": "s3rver", "sentinel_password": "s3ntinel"}
    return Sentinels(**closed, down_after=20.0).start()
