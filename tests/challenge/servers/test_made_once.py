"""What is expensive to create is created once for all processes of a run, and is complete."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from servers.echo import EchoServer

from lockfast_challenge.servers.made_once import MADE_IN, made_once, share_what_is_made
from lockfast_challenge.servers.server import _built


@pytest.fixture
def shared(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv(MADE_IN, str(tmp_path))
    return tmp_path


def test_of_those_who_ask_at_once_one_makes_it_and_all_have_it(shared):
    makers = []

    def make(directory: Path) -> None:
        makers.append(directory)
        for number in range(50):
            (directory / str(number)).touch()

    def ask(_: int) -> int:
        # Each call opens the lock file itself, so threads exclude each other just as processes do.
        return len(list(made_once("data", make).iterdir()))

    with ThreadPoolExecutor(8) as pool:
        seen = list(pool.map(ask, range(8)))

    assert seen == [50] * 8
    assert len(makers) == 1


def test_what_was_begun_and_failed_is_made_anew(shared):
    def fail(directory: Path) -> None:
        (directory / "half").touch()
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        made_once("data", fail)

    assert list(made_once("data", lambda directory: (directory / "all").touch()).iterdir()) == [
        shared / "data" / "all"
    ]


def test_a_process_that_shares_with_nobody_makes_its_own(monkeypatch):
    monkeypatch.delenv(MADE_IN)

    first, second = (made_once("data", lambda made: (made / "all").touch()) for _ in range(2))

    assert first != second
    assert (second / "all").exists()


def test_whoever_is_started_shares_with_who_started_it(monkeypatch):
    monkeypatch.delenv(MADE_IN)

    share_what_is_made()
    said = os.environ[MADE_IN]
    share_what_is_made()

    assert os.environ[MADE_IN] == said
    assert Path(said).is_dir()


def test_servers_share_the_data_that_one_class_builds_for_them(shared):
    class One(EchoServer):
        @classmethod
        def build(cls, data: Path) -> None:
            data.mkdir()

    class Heir(One):
        """Shares the data of its base class, because it inherits `build`."""

    class Other(One):
        @classmethod
        def build(cls, data: Path) -> None:
            data.mkdir()
            (data / "other").touch()

    assert _built(One) == _built(Heir)
    assert not list(_built(One).iterdir())
    assert list(_built(Other).iterdir()) == [_built(Other) / "other"]
