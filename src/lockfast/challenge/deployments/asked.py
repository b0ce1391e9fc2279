"""Faults that a server makes itself when it is asked to by its own commands.

All its clients notice, so they are destructive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode

import redis

from lockfast.backends.redis.addresses import address_of_url, understood
from lockfast.challenge.deployments.on_servers import PAUSED, OnServers
from lockfast.challenge.fault import DidNotStrike
from lockfast.core.locating import masked, split

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.challenge.fault import Draw, Fault


PATIENCE = 10.0
"""So many seconds a server may take to answer; one that never does must not keep the run."""


def redis_faults(url: str, *, store: str, lacks: str = "") -> Sequence[Fault]:
    """Return what a Redis server can be asked for, or the Sentinels that watch one.

    What it `lacks` is why it must not be asked, if it must not.
    """
    if store == "redis":
        one = _Pausing(url)
        return [OnServers("server-paused", PAUSED, one.begin, one.end, lacks=lacks)]
    if store == "sentinel":
        return [OnServers("failover", (1.0, 2.0), _FailingOver(url).begin, lacks=lacks)]
    return []


class _Pausing:
    """CLIENT PAUSE: whoever writes, or runs a script, is answered when it is over.

    Of writes only: otherwise nobody could end it before its time, who is paused too.
    """

    def __init__(self, url: str) -> None:
        self._url = url

    def begin(self, draw: Draw) -> str:
        with self._client() as client:
            client.client_pause(round(draw.length * 1000), all=False)
        return "the server"

    def end(self) -> None:
        with self._client() as client:
            client.client_unpause()

    def _client(self) -> redis.Redis:
        # The URL may have options that are ours, and none of the driver's.
        parts = split(self._url)
        options = understood(dict(parse_qsl(parts.query)), by=redis.SSLConnection)
        url = parts._replace(query=urlencode(options)).geturl()
        return redis.Redis.from_url(url, socket_timeout=PATIENCE, socket_connect_timeout=PATIENCE)


class _FailingOver:
    """SENTINEL FAILOVER: the Sentinels choose another master, though this one is well."""

    def __init__(self, url: str) -> None:
        options = dict(parse_qsl(split(url).query))
        self._address = address_of_url(url.partition("?")[0], where=masked(url), options=options)

    def begin(self, _: Draw) -> str:
        options: dict[str, Any] = self._address.sentinel_options
        command = "SENTINEL", "FAILOVER", self._address.service
        said = ""
        for one in self._address.endpoints:
            with redis.Redis(one.host, one.port, **options) as client:
                try:
                    client.execute_command(*command)
                except redis.RedisError as error:  # the next may have quorum, or be there at all
                    said = str(error)
                else:
                    return "the master"
        raise DidNotStrike(f"no Sentinel would: {said}")
