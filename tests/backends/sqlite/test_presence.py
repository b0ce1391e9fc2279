"""Which clients are alive, also on platforms where an open file cannot be removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from lockfast.backends.sqlite import presence
from lockfast.backends.sqlite.presence import Presence
from lockfast.platforms import here


@pytest.fixture(params=[True, False], ids=["posix", "windows"])
def database(request, monkeypatch, tmp_path) -> Path:
    """A database on two kinds of platform, of which one refuses to remove open files."""
    monkeypatch.setattr(here, "CAN_REMOVE_OPEN_FILES", request.param)
    if not request.param:
        unlink = Path.unlink

        def refuse_or_unlink(path: Path) -> None:
            opened = {Path(one.name) for one in _open if not one.closed}
            if path in opened:
                raise PermissionError(path)
            unlink(path)

        _open: list[presence.Descriptor] = []

        class Noted(presence.Descriptor):
            def __init__(self, path: Path, *, create: bool) -> None:
                super().__init__(path, create=create)
                _open.append(self)

        monkeypatch.setattr(presence, "Descriptor", Noted)
        monkeypatch.setattr(Path, "unlink", refuse_or_unlink)
    return tmp_path / "locks.db"


def arrived(database: Path, client: str) -> Presence:
    one = Presence(database)
    one.lock_boot()
    one.share()
    one.announce(client)
    return one


def clients(database: Path) -> list[str]:
    return sorted(one.name for one in Path(f"{database}-clients").glob("*.client"))


def test_whoever_leaves_removes_its_file(database):
    one = arrived(database, "me")
    before = clients(database)

    one.leave()

    assert before == ["me.client"]
    assert clients(database) == []


def test_who_comes_sweeps_the_files_of_the_dead_and_no_others(database):
    living = arrived(database, "living")
    arrived(database, "dead").close_files()  # as the kernel does for a dead client

    coming = arrived(database, "coming")

    assert clients(database) == ["coming.client", "living.client"]
    assert coming.is_gone("dead")
    assert not coming.is_gone("living")
    for one in (coming, living):
        one.leave()
    assert clients(database) == []
