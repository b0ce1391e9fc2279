"""Fixtures that use the embedded store as programs do: with real processes, files and signals."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from puppets import Stage

WORKER = Path(__file__).with_name("worker.py")


class Belongings:
    """Compares this process's threads, sockets and files with those at the object's creation."""

    def __init__(self) -> None:
        self._threads = set(threading.enumerate())
        self._files = _open_files()

    def added(self) -> list[str]:
        """Return the threads, sockets and files that were added since the object was created."""
        threads = [f"thread {one.name}" for one in set(threading.enumerate()) - self._threads]
        files = [
            f"file {target}"
            for number, target in _open_files().items()
            if self._files.get(number) != target
        ]
        return sorted(threads + files)


def _open_files() -> dict[str, str]:
    files = {}
    for number in Path("/proc/self/fd").iterdir():
        try:
            files[number.name] = str(number.readlink())
        except FileNotFoundError:
            continue  # the descriptor of this very listing
    return files


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "locks.db"


@pytest.fixture
def url(path) -> str:
    return "sqlite" + path.as_uri().removeprefix("file")


@pytest.fixture
def puppet(tmp_path) -> Iterator[Stage]:
    stage = Stage(tmp_path, WORKER, "puppet")
    yield stage
    stage.clear_away()


@pytest.fixture
def belongings() -> type[Belongings]:
    """Return the class: create an object before the work, and call `added` afterwards."""
    return Belongings
