"""Faults that a server makes itself when it receives certain commands.

All clients of the server notice these faults, so the faults count as destructive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode

import redis

from lockfast.backends.redis.address import address_of_url, understood
from lockfast.core.descriptor import masked, split
from lockfast_challenge.faults.fault import DidNotStrike
from lockfast_challenge.faults.on_servers import PAUSE_RANGE_TTLS, ServerFault

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast_challenge.faults.fault import Draw, Fault


COMMAND_TIMEOUT_SECONDS = 10.0
"""Timeout for a server's reply, in seconds; a server that never replies must not block the run."""


def redis_faults(url: str, *, store: str, lacks: str = "") -> Sequence[Fault]:
    """Return the faults that a Redis server, or the Sentinels that watch it, can make on command.

    `lacks` is the reason why the faults must not be made, or empty if they may be made.
    """
    if store == "redis":
        one = _ClientPause(url)
        return [ServerFault("server-paused", PAUSE_RANGE_TTLS, one.begin, one.end, lacks=lacks)]
    if store == "sentinel":
        return [ServerFault("failover", (1.0, 2.0), _SentinelFailover(url).begin, lacks=lacks)]
    return []


class _ClientPause:
    """The command CLIENT PAUSE: the server answers writes and scripts only after the pause.

    Only writes are paused, because otherwise the command that ends the pause early would wait too.
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
        # The URL may have options that Lockfast understands and the driver does not.
        parts = split(self._url)
        options = understood(dict(parse_qsl(parts.query)), by=redis.SSLConnection)
        url = parts._replace(query=urlencode(options)).geturl()
        return redis.Redis.from_url(
            url,
            socket_timeout=COMMAND_TIMEOUT_SECONDS,
            socket_connect_timeout=COMMAND_TIMEOUT_SECONDS,
        )


class _SentinelFailover:
    """The command SENTINEL FAILOVER: the Sentinels replace a master although it is healthy."""

    def __init__(self, url: str) -> None:
        options = dict(parse_qsl(split(url).query))
        self._address = address_of_url(url.partition("?")[0], where=masked(url), options=options)

    def begin(self, _: Draw) -> str:
        options: dict[str, Any] = self._address.sentinel_options
        command = "SENTINEL", "FAILOVER", self._address.service
        refusal = ""
        for one in self._address.endpoints:
            with redis.Redis(one.host, one.port, **options) as client:
                try:
                    client.execute_command(*command)
                except redis.RedisError as error:  # the next Sentinel may be up, or have a quorum
                    refusal = str(error)
                else:
                    return "the master"
        raise DidNotStrike(f"no Sentinel would: {refusal}")
