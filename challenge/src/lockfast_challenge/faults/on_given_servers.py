"""Faults that a server makes itself when it receives certain commands.

All clients of the server notice these faults, so the faults count as destructive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import redis

from lockfast.backends.redis.address import (
    Address,
    ServerSettings,
    address_of_url,
    checked_options,
)
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
        return _client_of(_address(self._url).server)


class _SentinelFailover:
    """The command SENTINEL FAILOVER: the Sentinels replace a master although it is healthy."""

    def __init__(self, url: str) -> None:
        self._address = _address(url)

    def begin(self, _: Draw) -> str:
        settings = self._address.sentinel
        assert settings is not None  # noqa: S101 - the URL names Sentinels
        command = "SENTINEL", "FAILOVER", self._address.service
        refusal = ""
        for one in self._address.endpoints:
            with _client_of(settings.at(one)) as client:
                try:
                    client.execute_command(*command)
                except redis.RedisError as error:  # the next Sentinel may be up, or have a quorum
                    refusal = str(error)
                else:
                    return "the master"
        raise DidNotStrike(f"no Sentinel would: {refusal}")


_OF_CLIENTS = ("durability", "request_timeout")
"""Options in a URL that say how to use the servers, and not where they are."""


def _address(url: str) -> Address:
    in_url = dict(parse_qsl(split(url).query))
    options = {name: in_url[name] for name in in_url if name not in _OF_CLIENTS}
    where = masked(url.partition("?")[0])
    given = checked_options(options, what="the servers", where=where, has_sentinels=True)
    return address_of_url(url.partition("?")[0], where=where, options=given)


def _client_of(server: ServerSettings) -> redis.Redis:
    target, login = server.target, server.login
    settings: dict[str, Any] = {"username": login.username or None, "db": server.db}
    if target.endpoint is None:
        settings["unix_socket_path"] = target.path
    else:
        settings |= {"host": target.endpoint.host, "port": target.endpoint.port}
    if (tls := target.tls) is not None:
        settings |= {
            "ssl": True,
            "ssl_ca_certs": tls.ca,
            "ssl_ca_path": tls.ca_path,
            "ssl_certfile": tls.cert,
            "ssl_keyfile": tls.key,
            "ssl_password": tls.key_password,
            "ssl_check_hostname": tls.verify == "full",
            "ssl_cert_reqs": "none" if tls.verify == "none" else "required",
        }
    return redis.Redis(
        **settings,
        password=login.password or None,
        socket_timeout=COMMAND_TIMEOUT_SECONDS,
        socket_connect_timeout=COMMAND_TIMEOUT_SECONDS,
    )
