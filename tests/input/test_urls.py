"""URLs that name no store, and options that a store does not have."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from refusal import refusal

import lockfast
from lockfast import AsyncLocks, Locks
from lockfast.testing import FaultyBackend


@pytest.mark.parametrize("url", ["foo://host", "redi://host", "", "locks.db", "/srv/locks.db"])
@pytest.mark.parametrize("flavour", [Locks, AsyncLocks])
def test_an_unknown_scheme_is_refused_listing_the_known_ones(flavour, url):
    """The message has an example of each scheme: the usual mistake is a path without a scheme."""
    told = refusal(lambda: flavour(url))

    assert "unknown scheme" in told
    assert "memory://" in told
    assert "sqlite:///path/to/locks.db" in told


@pytest.mark.parametrize("scheme", ["valkeys", "VALKEYS"])
def test_a_scheme_of_another_library_is_refused_with_ours(scheme):
    """Valkey is supported, under the schemes of Redis."""
    told = refusal(lambda: Locks(f"{scheme}://me:s3cret@host:6379/0"))

    assert told.endswith("; write rediss://***@host:6379/0")


def test_a_url_that_is_no_string_is_refused():
    """The usual mistake is to pass a Path."""
    assert "a URL is a str, not" in refusal(lambda: Locks(Path("/srv/locks.db")), TypeError)


def test_a_host_in_an_sqlite_url_is_refused_with_the_right_spelling():
    """The usual mistake is two slashes where three are meant."""
    told = refusal(lambda: Locks("sqlite://locks.db"))

    assert "sqlite:///absolute/path.db or sqlite:relative.db" in told


@pytest.mark.parametrize(
    ("open_it", "accepted"),
    [
        (lambda: Locks("sqlite:///x.db?synchronus=full"), "accepted: synchronous"),
        (lambda: Locks("sqlite:///x.db", journal="wal"), "accepted: synchronous"),
        (lambda: Locks("memory://?size=3"), "accepted: none"),
        (lambda: AsyncLocks("memory://", size=3), "accepted: none"),
    ],
)
def test_an_unknown_option_of_a_store_is_refused_listing_the_known_ones(open_it, accepted):
    """If a misspelt option were ignored, its guarantee would silently be missing."""
    told = refusal(open_it)

    assert "unknown option" in told
    assert accepted in told


@pytest.mark.parametrize("flavour", [Locks, AsyncLocks])
def test_without_a_url_the_environment_says_which_store(flavour, monkeypatch, caplog, tmp_path):
    """The command reads the same variable: a program and its operator must use the same store."""
    caplog.set_level(logging.INFO, logger="lockfast")
    monkeypatch.setenv("LOCKFAST_URL", f"sqlite://{tmp_path}/chosen.db")

    locks = flavour()

    assert locks.location == f"{tmp_path}/chosen.db"
    assert f"locks at {tmp_path}/chosen.db, as LOCKFAST_URL says" in caplog.messages


def test_a_url_that_is_given_wins_over_the_environment(monkeypatch, caplog):
    caplog.set_level(logging.INFO, logger="lockfast")
    monkeypatch.setenv("LOCKFAST_URL", "foo://host")

    assert Locks("memory://").location.startswith("memory")
    assert caplog.messages == []


def test_an_empty_variable_says_nothing(monkeypatch, tmp_path):
    monkeypatch.setenv("LOCKFAST_URL", "")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    assert Locks().location == f"{tmp_path}/lockfast/locks.db"


def test_a_wrong_url_in_the_environment_is_refused_naming_the_variable(monkeypatch):
    monkeypatch.setenv("LOCKFAST_URL", "foo://me:s3cret@host")

    told = refusal(Locks)

    assert told.startswith("LOCKFAST_URL: unknown scheme 'foo'")
    assert "s3cret" not in told


def holds_in_shop(url: str, locks: Locks) -> bool:
    """Return whether a name that this client holds is held in the namespace `shop` of the store."""
    with locks, Locks(url, namespace="shop") as shop, locks.lock("nightly"):
        return shop.lock("nightly").locked()


def test_without_a_namespace_the_environment_says_which(monkeypatch, caplog, tmp_path):
    """`lockfast run` reads the same variable: otherwise it would not exclude a program."""
    caplog.set_level(logging.INFO, logger="lockfast")
    url = f"sqlite://{tmp_path}/locks.db"
    monkeypatch.setenv("LOCKFAST_NAMESPACE", "shop")

    assert holds_in_shop(url, Locks(url))
    assert holds_in_shop(url, Locks.from_backend(FaultyBackend.around(url)))
    assert not holds_in_shop(url, Locks(url, namespace="mine"))
    assert "locks in the namespace shop, as LOCKFAST_NAMESPACE says" in caplog.messages


def test_a_wrong_namespace_in_the_environment_is_refused_naming_the_variable(monkeypatch):
    monkeypatch.setenv("LOCKFAST_NAMESPACE", "my shop")

    told = refusal(lambda: Locks("memory://"))

    assert told.startswith("LOCKFAST_NAMESPACE: namespace 'my shop': ")


def test_every_refusal_is_one_of_ours():
    """Callers may catch LockError, or ValueError if they do not import Lockfast's errors."""
    with pytest.raises(lockfast.LockError) as refused:
        Locks("foo://host")

    assert isinstance(refused.value, ValueError)
    # Neither a mistake of the service's client (4xx) nor an outage that will pass (503).
    assert refused.value.http_status == 500
