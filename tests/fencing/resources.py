"""Resources that a holder writes to, unguarded or through a guard; for a test and its processes."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from typing import Any

import redis
from sqlalchemy import create_engine, text

from lockfast import StaleToken
from lockfast.fencing import FencedFile, RedisGuard, fenced_update, fencing_headers


class Rows:
    """A table with a row for each way of writing."""

    def __init__(self, url: str) -> None:
        self._engine = create_engine(url)

    def prepare(self) -> None:
        with self._engine.begin() as connection:
            connection.execute(text("DROP TABLE IF EXISTS late"))
            connection.execute(
                text("CREATE TABLE late (id VARCHAR(9) PRIMARY KEY, words TEXT, fence BIGINT)")
            )
            connection.execute(text("INSERT INTO late (id) VALUES ('plain'), ('fenced')"))

    def plain(self, lease: Any, words: str) -> None:
        lease.check()
        with self._engine.begin() as connection:
            connection.execute(
                text("UPDATE late SET words = :words WHERE id = 'plain'"), {"words": words}
            )

    def fenced(self, lease: Any, words: str) -> None:
        with self._engine.begin() as connection:
            fenced_update(connection, "late", {"id": "fenced"}, lease, {"words": words})

    def read(self, way: str) -> str:
        with self._engine.begin() as connection:
            found = connection.execute(text("SELECT words FROM late WHERE id = :id"), {"id": way})
            return found.scalar_one()

    def close(self) -> None:
        self._engine.dispose()


class Keys:
    """Redis, with a key for each way of writing."""

    def __init__(self, url: str) -> None:
        self._client = redis.Redis.from_url(url, decode_responses=True)

    def prepare(self) -> None:
        self._client.delete("plain", "fenced", "late:mark")

    def plain(self, lease: Any, words: str) -> None:
        lease.check()
        self._client.set("plain", words)

    def fenced(self, lease: Any, words: str) -> None:
        RedisGuard(self._client, "late:mark").command(lease, "SET", "fenced", words)

    def read(self, way: str) -> str:
        return self._client.get(way)

    def close(self) -> None:
        self._client.close()


class Files:
    """A directory with a file for each way of writing."""

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)

    def prepare(self) -> None:
        """Do nothing: the files need not exist."""

    def plain(self, lease: Any, words: str) -> None:
        lease.check()
        (self._directory / "plain").write_text(words)

    def fenced(self, lease: Any, words: str) -> None:
        FencedFile(self._directory / "fenced", timeout=60).write(lease, words.encode())

    def read(self, way: str) -> str:
        return (self._directory / way).read_text()

    def close(self) -> None:
        """Do nothing: no file stays open."""


class Requests:
    """A server with a path for each way of writing."""

    def __init__(self, port: str) -> None:
        self._port = int(port)

    def prepare(self) -> None:
        """Do nothing: a new server is empty."""

    def plain(self, lease: Any, words: str) -> None:
        lease.check()
        assert self.ask("PUT", "/plain", words)[0] == 200

    def fenced(self, lease: Any, words: str) -> None:
        status, answer = self.ask("PUT", "/fenced", words, fencing_headers(lease))
        if status == 412:
            said = json.loads(answer)
            raise StaleToken(said["detail"], token=said["token"], seen=said["seen"])
        assert status == 200

    def read(self, way: str) -> str:
        return self.ask("GET", f"/{way}")[1].decode()

    def ask(
        self, method: str, path: str, body: str = "", headers: dict[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Return the status and the body of the reply."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        connection.request(method, path, body.encode(), headers or {})
        answer = connection.getresponse()
        found = answer.status, answer.read()
        connection.close()
        return found

    def close(self) -> None:
        """Do nothing: each request had its own connection."""


KINDS = {"rows": Rows, "keys": Keys, "files": Files, "requests": Requests}
