"""A file that refuses a late token, and that is complete at every moment."""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import subprocess
import sys
import tempfile

import pytest

from lockfast import (
    BackendUnavailable,
    ConfigurationError,
    LeaseLost,
    StaleToken,
    TokenUnavailable,
)
from lockfast.fencing import FencedFile


@pytest.fixture
def path(tmp_path):
    return tmp_path / "report.csv"


@pytest.fixture
def file(path):
    return FencedFile(path)


def names(path) -> list[str]:
    return sorted(one.name for one in path.parent.iterdir())


def test_a_smaller_token_is_refused_and_both_are_told(file, path):
    file.write(("door", 33), b"first")
    file.write(("door", 34), b"second")

    with pytest.raises(StaleToken, match="34 of a later holder, and refuses token 33") as refusal:
        file.write(("door", 33), b"late")

    assert (refusal.value.token, refusal.value.seen, refusal.value.name) == (33, 34, "door")
    assert path.read_bytes() == b"second"
    assert names(path) == ["report.csv", "report.csv.fence"]


def test_a_sealed_file_refuses_an_earlier_holder_and_keeps_its_content(file, path):
    path.write_bytes(b"old")
    file.seal(("door", 34))

    with pytest.raises(StaleToken):
        file.write(("door", 33), b"late")
    assert path.read_bytes() == b"old"


def test_one_holder_writes_as_often_as_it_likes(file, path):
    for content in (b"one", b"two", b""):
        file.write(("door", 33), content)

    assert path.read_bytes() == b""


def test_the_largest_token_is_kept_exactly(file):
    file.seal(("door", 9))
    file.seal(("door", 10))
    with pytest.raises(StaleToken):
        file.seal(("door", 9))
    file.seal(("door", 2**53 - 1))
    with pytest.raises(StaleToken) as refusal:
        file.seal(("door", 2**53 - 2))
    assert refusal.value.seen == 2**53 - 1


@pytest.mark.parametrize("token", [-1, 0, 2**53, 2**64])
def test_what_can_be_no_token_is_refused(file, token, path):
    with pytest.raises(ConfigurationError, match="is accepted"):
        file.write(("door", token), b"never")
    assert names(path) == []


def test_a_lease_is_looked_at_first(file, locks, path):
    lease = locks.lock("door").acquire()
    file.write(lease, b"words")
    locks.break_("door")

    with pytest.raises(LeaseLost):
        file.write(lease, b"late")
    with locks.rwlock("book").read() as reader, pytest.raises(TokenUnavailable):
        file.seal(reader)
    assert path.read_bytes() == b"words"


@pytest.mark.parametrize("mark", [b"33\n", b"0000000000000033", b"x" * 17, b"-000000000000033\n"])
def test_a_damaged_mark_is_refused_and_no_open_door(file, path, mark):
    path.with_name("report.csv.fence").write_bytes(mark)

    with pytest.raises(ConfigurationError, match="where the largest token belongs"):
        file.write(("door", 34), b"never")
    assert names(path) == ["report.csv.fence"]


def test_whoever_keeps_the_mark_locked_is_told_of_and_nothing_is_written(path):
    with path.with_name("report.csv.fence").open("w") as mark:
        fcntl.flock(mark, fcntl.LOCK_EX)

        with pytest.raises(BackendUnavailable, match="is it frozen"):
            FencedFile(path, timeout=0.05).write(("door", 33), b"never")

    assert names(path) == ["report.csv.fence"]


def test_a_mark_that_was_replaced_meanwhile_is_not_the_one_that_counts(file, path, monkeypatch):
    """If a replaced mark counted, two writers could lock different files and miss a mark."""
    mark = path.with_name("report.csv.fence")
    file.seal(("door", 33))
    lock = file._lock

    def replaced_before(number: int, deadline: float) -> None:
        monkeypatch.setattr(file, "_lock", lock)
        mark.unlink()
        FencedFile(path).seal(("door", 35))
        lock(number, deadline)

    monkeypatch.setattr(file, "_lock", replaced_before)

    with pytest.raises(StaleToken) as refusal:
        file.write(("door", 34), b"late")
    assert refusal.value.seen == 35


def test_a_child_that_is_forked_meanwhile_does_not_keep_others_out(file, path, monkeypatch):
    """A forked child keeps the locked file open too, for as long as the child lives."""
    raise_mark, children = file._raise, []

    def forking(mark: int, who: object) -> None:
        raise_mark(mark, who)
        if not (child := os.fork()):
            signal.pause()
        children.append(child)

    monkeypatch.setattr(file, "_raise", forking)
    file.seal(("door", 33))

    try:
        FencedFile(path, timeout=0.05).write(("door", 34), b"content")
    finally:
        os.kill(children[0], signal.SIGKILL)
        os.waitpid(children[0], 0)


def test_its_mode_is_kept_and_a_new_file_has_the_usual_one(file, path):
    program = (
        "import os, sys; from lockfast.fencing import FencedFile; os.umask(0o027);"
        "FencedFile(sys.argv[1]).write(('door', 33), b'new')"
    )
    subprocess.run([sys.executable, "-c", program, str(path)], check=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640

    path.chmod(0o604)
    file.write(("door", 34), b"again")

    assert stat.S_IMODE(path.stat().st_mode) == 0o604


def test_a_link_stays_a_link(tmp_path, path):
    link = tmp_path / "link"
    link.symlink_to(path)

    FencedFile(link).write(("door", 34), b"content")

    assert link.is_symlink()
    with pytest.raises(StaleToken):
        FencedFile(path).write(("door", 33), b"late")


def test_a_write_that_fails_leaves_nothing_behind(file, path, monkeypatch):
    file.write(("door", 33), b"old")

    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)

    with pytest.raises(OSError, match="No space left"):
        file.write(("door", 34), b"new")
    with pytest.raises(TypeError, match="content is bytes, not str"):
        file.write(("door", 34), "text")

    assert path.read_bytes() == b"old"
    assert names(path) == ["report.csv", "report.csv.fence"]


KILLED = """
import os, signal, sys
from lockfast.fencing import FencedFile

step = {"raised": (FencedFile, "_raise"), "written": (os, "fsync")}
setattr(*step[sys.argv[2]], lambda *_: os.kill(os.getpid(), signal.SIGKILL))
FencedFile(sys.argv[1]).write(("door", 35), b"x" * 100_000)
"""


@pytest.mark.parametrize("step", ["written", "raised"])
def test_what_killed_writers_left_is_removed_by_a_later_one(file, path, step):
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", KILLED, path, step], check=False)
        assert done.returncode == -signal.SIGKILL
    assert len(names(path)) >= 3

    file.write(("door", 36), b"whole")

    assert names(path) == ["report.csv", "report.csv.fence"]
    assert path.read_bytes() == b"whole"


def test_the_draft_of_a_writer_that_lives_is_not_removed(file, path):
    """The writer of a draft may be slow or frozen, and would fail without its draft."""
    other = FencedFile(path)
    with other._draft(b"slow") as draft:
        file.write(("door", 33), b"quick")

        assert os.path.exists(draft.name)  # noqa: PTH110 - a str
    assert names(path) == ["report.csv", "report.csv.fence"]


def test_a_draft_that_is_removed_before_it_is_locked_is_made_again(file, path, monkeypatch):
    """Before the draft is locked, a sweep may take it for a dead writer's draft."""
    make, made = tempfile.mkstemp, []

    def make_and_lose(**options: str):
        number, name = make(**options)
        made.append(name)
        if len(made) == 1:
            os.unlink(name)  # noqa: PTH108 - a str
        return number, name

    monkeypatch.setattr(tempfile, "mkstemp", make_and_lose)
    file.write(("door", 33), b"content")

    assert len(made) == 2
    assert path.read_bytes() == b"content"


def test_what_only_looks_like_a_draft_is_left_alone(file, path):
    """A copy that a user keeps beside the file is not ours."""
    kept = path.with_name(".report.csv.original")
    kept.write_bytes(b"mine")

    file.write(("door", 33), b"content")

    assert kept.read_bytes() == b"mine"
