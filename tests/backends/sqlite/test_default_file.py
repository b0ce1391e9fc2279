"""Where the embedded default puts its file, and what it logs about that."""

from __future__ import annotations

import logging
import stat
from pathlib import Path

import pytest

import lockfast
from lockfast.backends.sqlite import descriptor
from lockfast.platforms import here, linux, macos


@pytest.fixture
def state_home(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(descriptor, "is_container", lambda: False)
    return tmp_path / "state"


def test_the_default_file_lives_in_the_state_home(state_home):
    """One file per user and machine, in a directory that belongs to that user alone."""
    with lockfast.Locks() as locks:
        locks.lock("door").acquire().release()

    directory = state_home / "lockfast"
    assert (directory / "locks.db").is_file()
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


@pytest.mark.parametrize("value", ["", "relative/state"])
def test_a_state_home_that_is_no_absolute_path_is_ignored(monkeypatch, tmp_path, value):
    """The XDG specification says that paths which are not absolute have to be ignored."""
    monkeypatch.setenv("XDG_STATE_HOME", value)
    monkeypatch.setattr(here, "state_directory", lambda: tmp_path)

    assert descriptor.default_path() == tmp_path / "lockfast/locks.db"


@pytest.mark.parametrize("platform", [linux, macos])
def test_without_one_it_is_where_programs_keep_their_state(monkeypatch, tmp_path, platform):
    monkeypatch.setenv("HOME", str(tmp_path))

    assert platform.state_directory() == tmp_path / ".local/state"


def test_the_default_path_is_logged_once_per_client(state_home, caplog):
    """The log shows which file a client uses: that is the first question when debugging."""
    caplog.set_level(logging.INFO, logger="lockfast")

    with lockfast.Locks() as locks:
        for _ in range(3):
            locks.lock("door").acquire().release()

    told = [one for one in caplog.records if str(state_home) in one.getMessage()]
    assert [one.levelname for one in told] == ["INFO"]
    assert "excludes only processes of this user on this machine" in told[0].getMessage()


def test_the_default_in_a_container_is_a_warning(state_home, caplog, monkeypatch):
    """Containers do not share the default file, so they do not exclude each other."""
    monkeypatch.setattr(descriptor, "is_container", lambda: True)

    with lockfast.Locks():
        pass

    [told] = [one for one in caplog.records if str(state_home) in one.getMessage()]
    assert told.levelname == "WARNING"
    assert "in this container" in told.getMessage()


def test_the_warning_of_a_container_comes_once_per_process(state_home, caplog, monkeypatch):
    """A program that opens a client for each request would fill its log with the warning."""
    monkeypatch.setattr(descriptor, "is_container", lambda: True)

    for _ in range(3):
        with lockfast.Locks():
            pass

    told = [one for one in caplog.records if str(state_home) in one.getMessage()]
    assert [one.levelname for one in told] == ["WARNING"]


def test_a_chosen_path_is_not_logged(url, caplog):
    """A caller that chose the path knows it, so the path is not logged."""
    caplog.set_level(logging.INFO, logger="lockfast")

    with lockfast.Locks(url) as locks:
        locks.lock("door").acquire().release()

    assert [one for one in caplog.records if one.levelno >= logging.INFO] == []
