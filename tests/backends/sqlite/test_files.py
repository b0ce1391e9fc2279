"""Which files the embedded default accepts, and how it refuses the others."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from backends.sqlite.spoiling import change, refusal

import lockfast
from lockfast.platforms import here


def contents(directory: Path) -> dict[str, bytes | None]:
    return {
        str(one.relative_to(directory)): one.read_bytes() if one.is_file() else None
        for one in sorted(directory.rglob("*"))
    }


# -- paths that cannot be used ---------------------------------------------------------


def test_a_directory_is_refused(tmp_path):
    """The error names the directory, and asks for a file in it."""
    before = contents(tmp_path)

    sentence = refusal(f"sqlite://{tmp_path}")

    assert str(tmp_path) in sentence
    assert "is a directory; name a file in it" in sentence
    assert contents(tmp_path) == before


def test_a_missing_directory_is_refused(tmp_path):
    """We create only the default directory; elsewhere a missing directory is a mistake."""
    sentence = refusal(f"sqlite://{tmp_path}/missing/locks.db")

    assert f"{tmp_path}/missing is not a directory; create it first" in sentence
    assert contents(tmp_path) == {}


def test_a_file_of_random_bytes_is_refused(path):
    """A file of unknown content is not touched, and the error says what to do."""
    path.write_bytes(bytes(range(7, 256)) * 40)
    before = contents(path.parent)

    sentence = refusal(f"sqlite://{path}")

    assert str(path) in sentence
    assert "not a database" in sentence
    assert "move the file away" in sentence
    assert contents(path.parent) == before


def test_a_file_of_ours_that_was_damaged_is_refused(path):
    """Pages overwritten in the middle are reported as damage, not as a programming error."""
    with lockfast.Locks(f"sqlite://{path}") as locks:
        for number in range(50):
            locks.lock(f"door {number}").acquire().release()
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xa5" * (len(whole) - 4096))

    sentence = refusal(f"sqlite://{path}")

    assert str(path) in sentence
    assert "move the file away" in sentence


def test_a_database_of_another_program_is_refused_and_not_touched(path):
    """Another application's database is refused before anything is written to it."""
    change(path, "CREATE TABLE customers (name)")
    before = contents(path.parent)

    sentence = refusal(f"sqlite://{path}")

    assert f"{path} is a database of another program" in sentence
    assert contents(path.parent) == before


def test_a_file_of_a_newer_lockfast_is_refused(path):
    """The error names both formats, and says what to do."""
    with lockfast.Locks(f"sqlite://{path}") as locks:
        locks.lock("door").acquire().release()
    change(path, "PRAGMA user_version = 999")
    before = path.read_bytes()

    sentence = refusal(f"sqlite://{path}")

    assert "newer Lockfast (format 999" in sentence
    assert "upgrade" in sentence
    assert path.read_bytes() == before


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A directory that an unprivileged user can reach, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="lockfast-") as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


def test_a_directory_that_cannot_be_written_is_refused(puppet, open_to_all):
    """The test runs as a user to whom mode bits apply, because they do not stop root."""
    (open_to_all / "closed").mkdir(mode=0o555)
    somebody = puppet(f"sqlite://{open_to_all}/closed/locks.db")
    somebody.ask("give_up_root")

    with pytest.raises(lockfast.ConfigurationError) as refused:
        somebody.ask("acquire", "door", timeout=1)

    assert f"{open_to_all}/closed/locks.db" in str(refused.value)
    assert "must be writable" in str(refused.value)
    assert contents(open_to_all) == {"closed": None}


def test_a_file_that_cannot_be_written_is_refused(puppet, open_to_all):
    """A file that can only be read cannot be used for locking."""
    path = open_to_all / "locks.db"
    with lockfast.Locks(f"sqlite://{path}") as locks:
        locks.lock("door").acquire().release()
    path.chmod(0o444)
    for directory in (open_to_all, *filter(Path.is_dir, open_to_all.iterdir())):
        directory.chmod(0o555)  # in case an ordinary user runs this and owns the files
    before = contents(open_to_all)
    somebody = puppet(f"sqlite://{path}")
    somebody.ask("give_up_root")

    with pytest.raises(lockfast.ConfigurationError) as refused:
        somebody.ask("acquire", "door", timeout=1)

    assert str(path) in str(refused.value)
    assert "writ" in str(refused.value)
    assert contents(open_to_all) == before


# -- file systems ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["nfs", "fuse.gcsfuse", "9p", "virtiofs"])
def test_a_client_refuses_a_network_file_system(tmp_path, monkeypatch, kind):
    """A network file system is refused before any file is created there."""
    monkeypatch.setattr(here, "is_shared_file_system", lambda one: one == kind)
    monkeypatch.setattr(here, "file_system", lambda _directory: kind)

    sentence = refusal(f"sqlite://{tmp_path}/locks.db")

    assert f"{tmp_path} is on a {kind} file system" in sentence
    assert contents(tmp_path) == {}


def test_the_default_is_refused_on_a_network_file_system_before_its_directory_is_made(
    tmp_path, monkeypatch
):
    """A home directory on NFS is refused before anything is created in it."""
    monkeypatch.setattr(here, "is_shared_file_system", lambda one: one == "nfs4")
    monkeypatch.setattr(here, "file_system", lambda _directory: "nfs4")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    sentence = refusal("sqlite://")

    assert "on a nfs4 file system" in sentence
    assert contents(tmp_path) == {}


# -- synchronous -----------------------------------------------------------------------


@pytest.mark.parametrize(("value", "level"), [("full", 2), ("normal", 1)])
def test_synchronous_is_what_the_url_says(url, value, level):
    """With `full`, every grant is on disk before it counts."""
    with lockfast.Locks(f"{url}?synchronous={value}") as locks:
        locks.lock("door").acquire().release()
        connection = locks._client.backend._database.connection

        assert connection.execute("PRAGMA synchronous").fetchone() == (level,)


@pytest.mark.parametrize("value", ["off", "FULL", "", "2", "full; DROP TABLE places"])
def test_another_synchronous_is_refused_listing_the_accepted(url, path, value):
    """An unknown value never reaches SQLite, and no file is created."""
    with pytest.raises(lockfast.ConfigurationError) as refused:
        lockfast.Locks(url, synchronous=value)

    assert "normal or full is accepted" in str(refused.value)
    assert not path.exists()
