"""The Sentinels' passwords and the master's: each server asks for its own, and says so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lockfast import ConfigurationError
from lockfast.backends.redis import acl
from lockfast_challenge.servers.redis import RedisServer, until
from lockfast_challenge.servers.redis_sentinel import Sentinels

WRONG = "open-sesame-4711"


@pytest.fixture(scope="module")
def closed() -> Iterator[Sentinels]:
    """Sentinels with passwords, without TLS: asyncio closes TLS slowly, and warns if cut short."""
    with Sentinels(password="s3rver", sentinel_password="s3ntinel") as found:
        yield found


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("sentinel_password", None, r"the Sentinel \S+:\d+ of .* asks for a password of its own"),
        ("sentinel_password", WRONG, r"the Sentinel \S+:\d+ of .*; correct sentinel_username and"),
        (
            "sentinel_username",
            "nobody",
            r"the Sentinel \S+:\d+ of .*; correct sentinel_username and",
        ),
        ("password", None, "asks for a password; give one in the URL"),
        ("password", WRONG, "rejected this user name or password; correct them"),
        ("username", "nobody", "rejected this user name or password; correct them"),
    ],
)
def test_a_password_that_is_missing_or_wrong(closed, drivers, option, value, sentence):
    options = {**closed.client_options, option: value}
    options = {key: given for key, given in options.items() if given is not None}

    for one in drivers(closed.url, request_timeout=2.0, **options):
        with pytest.raises(ConfigurationError, match=sentence) as told:
            one.acquire("door", timeout=1)
        assert "\n" not in str(told.value)
        assert not any(secret in str(told.value) for secret in (WRONG, *_passwords(closed)))


def _passwords(servers: Sentinels) -> list[str]:
    return [value for key, value in servers.client_options.items() if "password" in key]


def test_a_password_for_sentinels_that_have_none(sentinels, drivers):
    for one in drivers(sentinels.url, sentinel_password=WRONG):
        with pytest.raises(ConfigurationError, match="leave sentinel_password out"):
            one.acquire("door", timeout=1)


@pytest.fixture
def watcher(closed):
    """Return a function that sets the rules of a Sentinel user and returns a client's options."""

    def rules(*changes: str) -> dict[str, str]:
        for one in closed.sentinels:
            _set_user(one, *changes)
        return {**closed.client_options, "sentinel_username": "watcher", "sentinel_password": "pw"}

    yield rules
    for one in closed.sentinels:
        with one.client() as client:
            client.execute_command("ACL", "DELUSER", "watcher")


def _set_user(server: RedisServer, *rules: str) -> None:
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "watcher", "reset", "on", ">pw", *rules)


def test_the_sentinels_user_may_be_a_small_one(closed, drivers, watcher):
    """The documented Sentinel ACL is enough, even during a failover.

    Clients ask the Sentinel that leads the failover only for the master's address.
    """
    options = watcher(*acl.SENTINEL.split())
    clients = drivers(closed.url, **options)
    closed.until_replicated(2)
    old = closed.master

    closed.fail_over()
    until(lambda: _ask(clients) and closed.master is not old, what="a failover")
    new = closed.until_failed_over(old)
    until(lambda: all(one.is_at(new) for one in clients), what="clients of the new master")

    for one in clients:
        one.release(one.acquire("door"))


def _ask(clients: list[Any]) -> bool:
    return all(one.waiting("door") == 0 for one in clients)


def test_what_the_sentinels_user_may_not_is_named(closed, drivers, watcher):
    for one in drivers(closed.url, **watcher("-@all", "+ping")):
        with pytest.raises(ConfigurationError, match=r"Sentinel .* needs \+sentinel\|masters"):
            one.acquire("door", timeout=1)
