"""The contract on a cluster with one master cut off, while slots move between nodes.

The URL names that master first. The master still answers its clients.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from backends.redis.contract.on_redis import AsyncContractOnRedis, ContractOnRedis
from servers.redis_divided_cluster import DividedCluster


class Unruly:
    """A cluster with one master cut off, and a thread that keeps moving slots."""

    def __init__(self) -> None:
        self.client_options: dict[str, str] = {}
        self.servers = DividedCluster().start()
        [master] = self.servers.with_replicas()
        self.servers.cut_off(master)
        others = [one for one in self.servers.servers if one is not master]
        hosts = ",".join(f"127.0.0.1:{one.port}" for one in (master, *others))
        self.url = f"redis+cluster://{hosts}"
        self.moves = 0
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._move)
        self._thread.start()

    def _move(self) -> None:
        while not self._ending.wait(0.05):
            self.moves += self.servers.move_something()

    def stop(self) -> None:
        self._ending.set()
        self._thread.join()
        self.servers.stop()


@pytest.fixture(scope="module", autouse=True)
def unruly() -> Iterator[None]:
    found = OnUnruly.found = Unruly()
    yield
    found.stop()
    assert found.moves > 10


class OnUnruly:
    found: Unruly
    laws = (2, 3, 4, 5, 6)  # only the laws on holders, their order and what is left behind

    @classmethod
    def servers(cls) -> Unruly:
        return OnUnruly.found


class TestAsync(OnUnruly, AsyncContractOnRedis):
    pass


class TestSync(OnUnruly, ContractOnRedis):
    pass
