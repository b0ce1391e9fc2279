"""Both servers with advisory locks, by the same few acts; each may be broken at will."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from functools import cache
from typing import Any

import pymysql
import pytest
from both_flavours import Flavour

from holdfast.challenge.eventually import eventually
from holdfast.challenge.servers.mariadb import MariadbServer
from holdfast.challenge.servers.postgresql import PostgresqlServer
from holdfast.challenge.servers.proxy import Proxy

ADVISORY = "?mode=advisory"


class Postgresql:
    """A server of PostgreSQL."""

    scheme = "postgresql"
    beat = b"pg_backend_pid"

    def __init__(self) -> None:
        self.server = PostgresqlServer().start()

    def url(self, address: str = "") -> str:
        """Return where it is, or where a proxy before it is."""
        return f"postgresql://postgres@{address or self.server.address}/postgres{ADVISORY}"

    def sessions(self) -> int:
        """Return how many sessions clients of ours have."""
        count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'holdfast'"
        return int(self.server.run(count)[0][0])

    def end_sessions(self) -> int:
        """End them, as an operator does, and return how many there were."""
        return self.server.terminate("application_name = 'holdfast'")

    def end_session(self, number: int) -> None:
        assert self.server.terminate(f"pid = {number}") == 1

    def shut_down(self) -> None:
        self.server.shut_down()


class Mariadb:
    """A server of MariaDB."""

    scheme = "mariadb"
    beat = b"SELECT 1, CONNECTION_ID"

    def __init__(self) -> None:
        self.server = MariadbServer().start()
        self.server.run("CREATE DATABASE test")

    def url(self, address: str = "") -> str:
        """Return where it is, or where a proxy before it is."""
        return f"mariadb://root@{address or self.server.address}/test{ADVISORY}"

    def _numbers(self) -> list[int]:
        rows = self.server.run("SELECT ID FROM information_schema.PROCESSLIST WHERE DB = 'test'")
        return [number for (number,) in rows]

    def sessions(self) -> int:
        """Return how many sessions clients of ours have."""
        return len(self._numbers())

    def end_sessions(self) -> int:
        """End them, as an operator does, and return how many there were."""
        numbers = self._numbers()
        for number in numbers:
            try:
                self.server.run("KILL %s", number)
            except pymysql.OperationalError as error:
                assert error.args[0] == 1094, error  # noqa: PT017 - it had gone by itself
        return len(numbers)

    def end_session(self, number: int) -> None:
        self.server.run("KILL %s", number)

    def shut_down(self) -> None:
        self.server.process.terminate()
        self.server.process.wait(self.server.patience)


@cache
def _started(kind: type[Any]) -> Any:
    return kind()


@pytest.fixture(params=[Postgresql, Mariadb], ids=lambda kind: kind.scheme)
def store(request, outliving) -> Iterator[Any]:
    """A server that serves when the test begins, and again when its clients close."""
    one = _started(request.param)
    if not one.server.is_running:
        one.server.start()
    yield one
    if not one.server.is_running:
        one.server.start()
    one.server.resume()


@pytest.fixture
def url(store) -> str:
    found: str = store.url()
    return found


@pytest.fixture
def proxy(store, outliving) -> Iterator[Proxy]:
    one = outliving.enter_context(Proxy(store.server.port, scheme=store.scheme))
    yield one
    one.accept()
    one.let_through()


class Rivals:
    """Clients that want one name."""

    def __init__(self, flavour: Flavour, url: str, name: str) -> None:
        self.flavour = flavour
        self.url = url
        self.name = name

    def locks(self, url: str = "", **options: Any) -> Any:
        """Return a client, which is patient unless told."""
        return self.flavour.locks(url or self.url, **{"request_timeout": 10.0, **options})

    def waiting(self, **options: Any) -> Future[Any]:
        """Let another client wait for it, and return once it does."""
        locks = self.locks(**options)
        future = self.flavour.start(locks.lock(self.name).acquire, timeout=40)
        backend = getattr(locks, "_inner", locks)._client.backend
        eventually(lambda: backend._waiting and backend._session, what="it waits")
        self.waiting_session = backend._session
        return future

    def is_free(self) -> bool:
        """Whether nobody has it, as somebody sees who tries."""
        with_lease = self.locks().lock(self.name).try_acquire()
        if with_lease is None:
            return False
        with_lease.release()
        return True


@pytest.fixture
def rivals(flavour, url, name) -> Rivals:
    return Rivals(flavour, url, name)
