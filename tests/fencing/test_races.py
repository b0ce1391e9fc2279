"""Many writers at once: the mark of a resource never goes down."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from callers import ONE_OF_EACH
from servers.redis import shared_server

from lockfast import StaleToken
from lockfast.fencing import FencedFile, RedisGuard

WRITERS, TOKENS = 4, 40
LONG = 150.0
"""Timeout that only a hang exceeds, in seconds; a test may take 180."""

Write = Callable[[int], None]


def race(opened: list[Write], read: Callable[[], int]) -> None:
    """Make each writer try many tokens, partly out of order, while a reader watches the mark."""
    together, is_over = threading.Barrier(len(opened)), threading.Event()
    accepted: list[int] = []

    def writing(number: int, write: Write) -> None:
        tokens = list(range(1 + number, 1 + WRITERS * TOKENS, WRITERS))
        # Rising with steps back: each writer sometimes wins and sometimes comes too late.
        tokens.sort(key=lambda token: token + random.uniform(0, 3 * WRITERS))  # noqa: S311 - no secret
        together.wait(LONG)
        for token in tokens:
            try:
                write(token)
            except StaleToken as error:
                assert error.seen > error.token == token  # noqa: PT017 - both are promised
            else:
                accepted.append(token)

    def looking() -> list[int]:
        seen = [read()]
        while not is_over.wait(0.001):
            seen.append(read())
        return [*seen, read()]

    with ThreadPoolExecutor(len(opened) + 1) as threads:
        looked = threads.submit(looking)
        work = [threads.submit(writing, *one) for one in enumerate(opened)]
        try:
            for one in work:
                one.result(LONG)
        finally:
            is_over.set()
        marks = looked.result(LONG)

    assert marks == sorted(marks)
    assert marks[-1] == max(accepted) == WRITERS * TOKENS


@pytest.mark.parametrize("kind", ONE_OF_EACH)
@pytest.mark.parametrize("how", ["update", "upsert", "upsert from nothing"])
def test_the_mark_of_a_row_never_goes_back(kind, how, table_of, tmp_path):
    tables = [table_of(kind) for _ in range(WRITERS + 1)]
    names, key = [one.name for one in tables], 2 if how.endswith("nothing") else 1
    for one in tables:
        one.caller.commit()
        one.name = names[0]

    def writes(table) -> Write:
        verb = getattr(table, how.split()[0])

        def write(token: int) -> None:
            try:
                verb(token, str(token), key=key)
            except StaleToken:
                table.caller.rollback()
                raise
            table.caller.commit()

        return write

    def read() -> int:
        caller = tables[-1].caller
        found = caller.run(f"SELECT fence, words FROM {names[0]} WHERE id = {key}")
        caller.commit()
        mark, words = (found and found[0]) or (0, None)
        assert not mark or words == str(mark)  # a value comes with its own token
        return mark or 0

    race([writes(one) for one in tables[:-1]], read)

    for one, name in zip(tables, names, strict=True):
        one.name = name


def test_the_mark_of_a_key_never_goes_back():
    clients = [shared_server().client() for _ in range(WRITERS + 1)]
    clients[0].delete("mark", "words")

    def writes(client) -> Write:
        guard = RedisGuard(client, "mark")
        return lambda token: guard.command(("door", token), "SET", "words", str(token))

    def read() -> int:
        mark, words = clients[-1].mget("mark", "words")
        assert mark == words
        return int(mark or 0)

    race([writes(one) for one in clients[:-1]], read)

    for one in clients:
        one.close()


def test_the_mark_of_a_file_never_goes_back(tmp_path):
    path, mark = tmp_path / "words", tmp_path / "words.fence"
    path.write_bytes(b"0")

    def write(token: int) -> None:
        FencedFile(path, timeout=LONG).write(("door", token), b"%d" % token)

    def read() -> int:
        return int(path.read_bytes())

    race([write] * WRITERS, read)

    assert int(mark.read_bytes()) == int(path.read_bytes())
