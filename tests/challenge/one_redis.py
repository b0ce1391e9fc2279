"""One Redis server, with a proxy in front of it for each client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from servers.redis import shared_server

from lockfast_challenge.faults.fault import Fault
from lockfast_challenge.servers.proxy import Proxy


class OneRedis:
    """A deployment that lasts as long as its proxies."""

    store = "redis"
    exemptions = ()

    def __init__(self, url: str, proxies: list[Proxy]) -> None:
        self.url = url
        self.proxies = proxies

    def url_for(self, client: int) -> str:
        return self.proxies[client].url

    def proxies_of(self, client: int) -> list[Proxy]:
        return [self.proxies[client]]

    def faults(self) -> list[Fault]:
        return []


@contextmanager
def one_redis(clients: int) -> Iterator[OneRedis]:
    server = shared_server()
    with ExitStack() as stack:
        proxies = [stack.enter_context(Proxy(server.port, scheme="redis")) for _ in range(clients)]
        yield OneRedis(server.url, proxies)
