"""Which files the embedded default accepts, where it puts its own, and how it says no."""

from __future__ import annotations

import logging
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.backends.sqlite import filesystem
from holdfast.backends.sqlite.connection import Connection
from holdfast.testing import ManualClock

DAY = 24 * 3600.0


def refusal(url: str) -> str:
    """Return the sentence with which the first use is refused."""
    with holdfast.Locks(url) as locks, pytest.raises(holdfast.ConfigurationError) as refused:
        locks.lock("door").acquire(timeout=1)
    return str(refused.value)


def contents(directory: Path) -> dict[str, bytes | None]:
    return {
        str(one.relative_to(directory)): one.read_bytes() if one.is_file() else None
        for one in sorted(directory.rglob("*"))
    }


def change(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(statement)
    connection.close()


# -- paths that cannot be used ---------------------------------------------------------


def test_a_directory_is_refused(tmp_path):
    """The sentence names it, and asks for a file in it."""
    before = contents(tmp_path)

    sentence = refusal(f"sqlite://{tmp_path}")

    assert str(tmp_path) in sentence
    assert "is a directory; name a file in it" in sentence
    assert contents(tmp_path) == before


def test_a_missing_directory_is_refused(tmp_path):
    """Only the default place is made by us; elsewhere a missing directory is a mistake."""
    sentence = refusal(f"sqlite://{tmp_path}/missing/locks.db")

    assert f"{tmp_path}/missing is not a directory; create it first" in sentence
    assert contents(tmp_path) == {}


def test_a_file_of_random_bytes_is_refused(path):
    """It may be anything, so it is not touched; the sentence says what to do."""
    path.write_bytes(bytes(range(7, 256)) * 40)
    before = contents(path.parent)

    sentence = refusal(f"sqlite://{path}")

    assert str(path) in sentence
    assert "not a database" in sentence
    assert "move the file away" in sentence
    assert contents(path.parent) == before


def test_a_file_of_ours_that_was_damaged_is_refused(path):
    """Pages overwritten in the middle: told as damage, not as a programming error."""
    with holdfast.Locks(f"sqlite://{path}") as locks:
        for number in range(50):
            locks.lock(f"door {number}").acquire().release()
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xa5" * (len(whole) - 4096))

    sentence = refusal(f"sqlite://{path}")

    assert str(path) in sentence
    assert "move the file away" in sentence


def test_a_database_of_another_program_is_refused_and_not_touched(path):
    """Its tables are somebody's data."""
    change(path, "CREATE TABLE customers (name)")
    before = contents(path.parent)

    sentence = refusal(f"sqlite://{path}")

    assert f"{path} is a database of another program" in sentence
    assert contents(path.parent) == before


def test_a_file_of_a_newer_holdfast_is_refused(path):
    """Both formats are named, and what to do."""
    with holdfast.Locks(f"sqlite://{path}") as locks:
        locks.lock("door").acquire().release()
    change(path, "PRAGMA user_version = 999")
    before = path.read_bytes()

    sentence = refusal(f"sqlite://{path}")

    assert "newer Holdfast (format 999" in sentence
    assert "upgrade" in sentence
    assert path.read_bytes() == before


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A directory that an unprivileged user can reach, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


def test_a_directory_that_cannot_be_written_is_refused(puppet, open_to_all):
    """Asked as a user to whom mode bits apply: root would be let through."""
    (open_to_all / "closed").mkdir(mode=0o555)
    somebody = puppet(f"sqlite://{open_to_all}/closed/locks.db")
    somebody.ask("give_up_root")

    with pytest.raises(holdfast.ConfigurationError) as refused:
        somebody.ask("acquire", "door", timeout=1)

    assert f"{open_to_all}/closed/locks.db" in str(refused.value)
    assert "must be writable" in str(refused.value)
    assert contents(open_to_all) == {"closed": None}


def test_a_file_that_cannot_be_written_is_refused(puppet, open_to_all):
    """A lock that could only be read would be no lock."""
    path = open_to_all / "locks.db"
    with holdfast.Locks(f"sqlite://{path}") as locks:
        locks.lock("door").acquire().release()
    path.chmod(0o444)
    for directory in (open_to_all, *filter(Path.is_dir, open_to_all.iterdir())):
        directory.chmod(0o555)  # for an ordinary user who runs this, and owns it all
    before = contents(open_to_all)
    somebody = puppet(f"sqlite://{path}")
    somebody.ask("give_up_root")

    with pytest.raises(holdfast.ConfigurationError) as refused:
        somebody.ask("acquire", "door", timeout=1)

    assert str(path) in str(refused.value)
    assert "writ" in str(refused.value)
    assert contents(open_to_all) == before


# -- file systems ----------------------------------------------------------------------

MOUNTS = """\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:40 / /mnt/share rw,relatime shared:5 - nfs4 server:/export rw
31 22 0:41 / /mnt/my\\040drive rw - fuse.sshfs sshfs#host: rw
32 30 254:1 / /mnt/share/local rw - xfs /dev/vdb rw
33 22 0:42 / /mnt/over rw - ext4 /dev/vdc rw
34 22 0:43 / /mnt/over rw master:3 - cifs //server/share rw
"""


@pytest.mark.parametrize(
    ("directory", "kind"),
    [
        ("/mnt/share", "nfs4"),
        ("/mnt/share/deep/down", "nfs4"),
        ("/mnt/my drive/locks", "fuse.sshfs"),
        ("/mnt/over", "cifs"),
    ],
)
def test_a_network_or_fuse_file_system_is_refused(directory, kind):
    """There SQLite cannot exclude other machines; the sentence says which it is."""
    with pytest.raises(holdfast.ConfigurationError) as refused:
        filesystem.refuse_network(Path(directory), mounts=MOUNTS)

    assert f"{directory} is on a {kind} file system" in str(refused.value)
    assert "choose a local path" in str(refused.value)


@pytest.mark.parametrize("directory", ["/", "/home", "/mnt", "/mnt/shared", "/mnt/share/local/x"])
def test_a_local_file_system_is_accepted(directory):
    """The longest mount point that is a parent decides, not one that only begins alike."""
    filesystem.refuse_network(Path(directory), mounts=MOUNTS)


@pytest.mark.parametrize("kind", ["nfs", "fuse.gcsfuse", "9p", "virtiofs"])
def test_a_client_refuses_a_network_file_system(tmp_path, monkeypatch, kind):
    """Before it makes a file or a side file there."""
    monkeypatch.setattr(filesystem, "kind_of", lambda *_arguments, **_options: kind)

    sentence = refusal(f"sqlite://{tmp_path}/locks.db")

    assert f"{tmp_path} is on a {kind} file system" in sentence
    assert contents(tmp_path) == {}


def test_the_default_is_refused_on_a_network_file_system_before_its_directory_is_made(
    tmp_path, monkeypatch
):
    """A home directory on NFS is left as it is."""
    monkeypatch.setattr(filesystem, "kind_of", lambda *_arguments, **_options: "nfs4")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    sentence = refusal("sqlite://")

    assert "on a nfs4 file system" in sentence
    assert contents(tmp_path) == {}


# -- another kernel, another boot ------------------------------------------------------


def another_boot(path: Path) -> None:
    change(path, "UPDATE meta SET boot = 'another boot'")


def test_a_file_in_use_by_another_kernel_is_refused(path, url):
    """Two machines that share a disk have two boot clocks: neither could believe the other."""
    with holdfast.Locks(url) as resident:
        lease = resident.lock("door").acquire()
        another_boot(path)

        sentence = refusal(url)

        assert f"{path} is in use by another kernel" in sentence
        assert [one.token for one in resident.inspect("door").holders] == [lease.token]


def test_a_new_boot_is_adopted_when_nobody_is_there(path, url):
    """Whoever held or waited died with the old boot; the tokens live on."""
    with holdfast.Locks(url) as locks:
        held = locks.lock("door", ttl=3600).acquire()
        released = locks.lock("window").acquire()
        released.release()
        change(path, "CREATE TABLE kept AS SELECT * FROM places")
    # Closing gave the lease back: put it as a machine leaves it that lost its power.
    change(path, "INSERT OR REPLACE INTO places SELECT * FROM kept")
    change(path, "DROP TABLE kept")
    another_boot(path)

    with holdfast.Locks(url) as locks:
        holders = locks.inspect("door").holders
        tokens = [locks.lock(name).try_acquire() for name in ("door", "window")]

        assert holders == ()
        assert tokens[0].token > held.token
        assert tokens[1].token > released.token


def token_after_a_new_boot(path: Path, monkeypatch: pytest.MonkeyPatch, *, wall: float) -> int:
    another_boot(path)
    with monkeypatch.context() as patch:
        patch.setattr("time.time", lambda: wall)
        locks = holdfast.Locks(f"sqlite://{path}")
        lease = locks.lock("door").acquire()
    locks.close()
    return lease.token


def test_tokens_grow_over_a_boot_with_the_wall_clock_set_back(path, url, monkeypatch):
    """Law 3: a battery that died must not let an old holder's writes pass the guard."""
    with holdfast.Locks(url) as locks:
        tokens = [locks.lock("door").acquire().token]

    tokens += [
        token_after_a_new_boot(path, monkeypatch, wall=wall) for wall in (1000.0, 1001.0, 5.0)
    ]

    assert tokens == sorted(set(tokens))


def test_tokens_grow_over_a_boot_also_for_a_name_that_was_swept(path, url, monkeypatch):
    """Law 3, "and sweeping": the youngest token may be swept after a hold of many days."""
    monkeypatch.setattr("holdfast.backends.sqlite.sweeping.SWEEP_AFTER", 0.0)
    monkeypatch.setattr("holdfast.backends.sqlite.sweeping.SWEEP_EVERY", 1)
    with holdfast.Locks(url) as locks:
        lease = locks.lock("door").acquire()
        lease.release()
        locks.lock("window").acquire().release()
        is_swept = locks.inspect("door").last_token is None

    later = token_after_a_new_boot(path, monkeypatch, wall=1000.0)

    assert is_swept
    assert later > lease.token


def test_a_client_that_was_frozen_while_it_opened_the_file_tells_the_same_time(url, monkeypatch):
    """Law 2: whose store clock is behind, its leases end early in the eyes of the others."""
    clock = ManualClock()
    clients = [holdfast.Locks(url, clock=clock) for _ in range(3)]
    execute = Connection.execute

    def execute_slowly(self, statement, values=()):
        if "meta" in statement:
            clock.advance(5)  # stopped, or just not scheduled for a while
        return execute(self, statement, values)

    with monkeypatch.context() as patch:
        patch.setattr(Connection, "execute", execute_slowly)
        for client in clients[:2]:
            client.inspect("door")
    clients[2].inspect("door")

    times = {client._client.backend._database.connection.now() for client in clients}
    for client in clients:
        client.close()
    assert len(times) == 1


# -- the default -----------------------------------------------------------------------


@pytest.fixture
def state_home(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(filesystem, "is_container", lambda: False)
    return tmp_path / "state"


def test_the_default_file_lives_in_the_state_home(state_home):
    """One file per user and machine, in a directory that is that user's alone."""
    with holdfast.Locks() as locks:
        locks.lock("door").acquire().release()

    directory = state_home / "holdfast"
    assert (directory / "locks.db").is_file()
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


@pytest.mark.parametrize("value", ["", "relative/state"])
def test_a_state_home_that_is_no_absolute_path_is_ignored(monkeypatch, tmp_path, value):
    """As the XDG rules ask."""
    monkeypatch.setenv("XDG_STATE_HOME", value)
    monkeypatch.setenv("HOME", str(tmp_path))

    assert filesystem.default_path() == tmp_path / ".local/state/holdfast/locks.db"


def test_the_default_path_is_logged_once_per_client(state_home, caplog):
    """Which file it is, is the first question after a surprise."""
    caplog.set_level(logging.INFO, logger="holdfast")

    with holdfast.Locks() as locks:
        for _ in range(3):
            locks.lock("door").acquire().release()

    told = [one for one in caplog.records if str(state_home) in one.getMessage()]
    assert [one.levelname for one in told] == ["INFO"]
    assert "excludes only processes of this user on this machine" in told[0].getMessage()


def test_the_default_in_a_container_is_a_warning(state_home, caplog, monkeypatch):
    """Two containers of one service exclude nobody but themselves there."""
    monkeypatch.setattr(filesystem, "is_container", lambda: True)

    with holdfast.Locks():
        pass

    [told] = [one for one in caplog.records if str(state_home) in one.getMessage()]
    assert told.levelname == "WARNING"
    assert "in this container" in told.getMessage()


def test_a_chosen_path_is_not_logged(url, caplog):
    """Whoever chose it knows it."""
    caplog.set_level(logging.INFO, logger="holdfast")

    with holdfast.Locks(url) as locks:
        locks.lock("door").acquire().release()

    assert [one for one in caplog.records if one.levelno >= logging.INFO] == []


# -- synchronous -----------------------------------------------------------------------


@pytest.mark.parametrize(("value", "level"), [("full", 2), ("normal", 1)])
def test_synchronous_is_what_the_url_says(url, value, level):
    """Full: every grant is on disk before it counts."""
    with holdfast.Locks(f"{url}?synchronous={value}") as locks:
        locks.lock("door").acquire().release()
        connection = locks._client.backend._database.connection

        assert connection.execute("PRAGMA synchronous").fetchone() == (level,)


@pytest.mark.parametrize("value", ["off", "FULL", "", "2", "full; DROP TABLE places"])
def test_another_synchronous_is_refused_listing_the_accepted(url, path, value):
    """Nothing of it reaches SQLite, and no file is made."""
    with pytest.raises(holdfast.ConfigurationError) as refused:
        holdfast.Locks(url, synchronous=value)

    assert "normal or full is accepted" in str(refused.value)
    assert not path.exists()
