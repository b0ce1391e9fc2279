"""A file that clients reach by two paths: the clients exclude each other, or are refused.

The danger is that SQLite keeps its log beside the path by which the file was opened.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from backends.sqlite.conftest import WORKER
from both_flavours import Flavour
from mounts import with_mounted
from puppets import Puppet, Stage

import lockfast
from lockfast import LeaseLost, Locks
from lockfast.platforms import here
from lockfast_challenge.processes import EVENTUALLY_SECONDS, eventually


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A directory that does not contain the file."""
    found = tmp_path / "elsewhere"
    found.mkdir()
    return found


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[..., Puppet]]:
    """Return a function that starts a process with a mount, and a client of a file there."""
    with ExitStack() as stack:

        def start(source: Path, target: Path, *, file: Path) -> Puppet:
            stage = Stage(tmp_path, WORKER, "puppet", prefix=with_mounted(source, target))
            stack.callback(stage.clear_away)
            return stage(f"sqlite://{file}")

        yield start


def use(path: Path) -> None:
    with Locks(f"sqlite://{path}") as locks:
        locks.lock("door").acquire(timeout=0).release()


def refusal(flavour: Flavour, path: Path) -> str:
    with pytest.raises(lockfast.ConfigurationError) as refused:
        flavour.locks(f"sqlite://{path}").lock("door").acquire(timeout=0)
    return str(refused.value)


# -- hard links ------------------------------------------------------------------------


def test_a_file_with_two_names_is_refused_by_both(flavour: Flavour, path: Path, elsewhere: Path):
    """A file with two hard links is refused by either name, and nothing is created beside it."""
    use(path)
    other = elsewhere / "other.db"
    os.link(path, other)

    for one in (path, other):
        assert f"{one} has 2 names (hard links)" in refusal(flavour, one)

    assert [one.name for one in elsewhere.iterdir()] == ["other.db"]


def test_a_file_whose_second_name_was_removed_is_used_again(path: Path, elsewhere: Path):
    use(path)
    os.link(path, elsewhere / "other.db")
    (elsewhere / "other.db").unlink()

    use(path)


def test_who_holds_when_a_second_name_is_made_keeps_its_lease(path: Path, elsewhere: Path):
    """A holder keeps its lease when a backup adds a link to its file; new clients are refused."""
    with Locks(f"sqlite://{path}") as locks, locks.lock("door") as lease:
        os.link(path, elsewhere / "other.db")

        for one in (path, elsewhere / "other.db"):
            with pytest.raises(lockfast.ConfigurationError):
                use(one)

        locks._client.backend._database.connection._looked_at = 0.0  # check the path again
        lease.renew()
        lease.check()


# -- mounts ----------------------------------------------------------------------------


def test_on_linux_a_file_that_is_mounted_by_itself_is_refused(
    mounted: Callable[..., Puppet], path: Path, elsewhere: Path
):
    """A file mounted by itself, as with `docker run -v locks.db:/app/locks.db`, is refused.

    The error says what to mount instead.
    """
    use(path)
    target = elsewhere / "locks.db"
    target.touch()
    inside = mounted(path, target, file=target)

    with pytest.raises(lockfast.ConfigurationError) as refused:
        inside.ask("acquire", "door", timeout=0)

    assert f"{target} is mounted by itself" in str(refused.value)
    assert "mount the directory instead" in str(refused.value)
    assert [one.name for one in elsewhere.iterdir()] == ["locks.db"]


def test_on_linux_both_sides_of_a_mounted_directory_exclude_each_other(
    mounted: Callable[..., Puppet], path: Path, elsewhere: Path
):
    """Our advice to mount the directory is sound: clients on both sides exclude each other."""
    with Locks(f"sqlite://{path}") as outside:
        lease = outside.lock("door").acquire()
        inside = mounted(path.parent, elsewhere, file=elsewhere / path.name)

        assert inside.ask("try_acquire", "door") is None
        lease.release()
        assert inside.ask("acquire", "door", timeout=EVENTUALLY_SECONDS) > lease.token
        assert outside.lock("door").try_acquire() is None


# -- symbolic links --------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["of the file", "of its directory"])
def test_who_comes_by_a_symbolic_link_is_excluded(
    puppet: Callable[..., Puppet], path: Path, elsewhere: Path, kind: str
):
    """Liveness files belong beside the file itself: beside a link, clients would seem dead."""
    link = elsewhere / "link"
    link.symlink_to(path if kind == "of the file" else path.parent)
    by_link = link if kind == "of the file" else link / path.name
    with Locks(f"sqlite://{path}") as locks:
        lease = locks.lock("door").acquire()
        other = puppet(f"sqlite://{by_link}")

        assert other.ask("try_acquire", "door") is None
        lease.release()
        assert other.ask("acquire", "door", timeout=EVENTUALLY_SECONDS) > lease.token
        assert locks.lock("door").try_acquire() is None

    assert [one.name for one in elsewhere.iterdir()] == ["link"]


def test_who_holds_by_a_symbolic_link_that_is_changed_comes_over(
    puppet: Callable[..., Puppet], path: Path, elsewhere: Path
):
    """A changed link counts as a replaced file, because clients name the link in their URL."""
    link = elsewhere / "link.db"
    link.symlink_to(path)
    with Locks(f"sqlite://{link}") as old:
        old.lock("other").acquire().release()
        link.unlink()
        link.symlink_to(path.with_name("new.db"))
        new = puppet(f"sqlite://{link}")
        new.ask("acquire", "door", timeout=EVENTUALLY_SECONDS)

        eventually(lambda: is_refused(old))

        new.ask("release", "door")
        lease = old.lock("door").acquire(timeout=EVENTUALLY_SECONDS)
        assert new.ask("try_acquire", "door") is None
        lease.release()


def is_refused(locks: Any) -> bool:
    lease = locks.lock("door").try_acquire()
    if lease is not None:
        with suppress(LeaseLost):  # the client moved to the other file meanwhile
            lease.release()
    return lease is None


def test_links_that_lead_round_in_a_circle_are_refused(flavour: Flavour, path: Path):
    path.symlink_to(path)

    assert str(path) in refusal(flavour, path)


@pytest.mark.parametrize("kind", ["nfs", "fuse.sshfs"])
def test_a_link_to_a_network_file_system_is_refused(
    flavour: Flavour, path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch, kind: str
):
    """A link to a file on a network file system is refused, even if the link itself is local."""
    path.symlink_to(elsewhere / "locks.db")
    monkeypatch.setattr(here, "is_shared_file_system", lambda one: one == kind)
    monkeypatch.setattr(
        here, "file_system", lambda directory: kind if directory == elsewhere else "ext4"
    )

    assert f"{elsewhere} is on a {kind} file system" in refusal(flavour, path)
    assert list(elsewhere.iterdir()) == []
