"""Passwords and permissions: the error says what is missing."""

from __future__ import annotations

import pytest
from refusals import PASSWORD
from servers.redis import shared_server

from lockfast import ConfigurationError
from lockfast.backends.redis import acl
from lockfast_challenge.servers.redis import RedisServer


@pytest.fixture(scope="module")
def closed():
    """A server that asks for a password."""
    with RedisServer("--requirepass", "another-one") as one:
        yield one


@pytest.fixture
def user(request):
    """Return a function that sets the rules of `clerk` on the shared server and returns a URL."""
    server = shared_server()
    client = server.client()

    def rules(*changes: str) -> str:
        client.script_flush()
        client.execute_command("ACL", "SETUSER", "clerk", "reset", "on", f">{PASSWORD}", *changes)
        return f"redis://clerk:{PASSWORD}@127.0.0.1:{server.port}"

    yield rules
    client.execute_command("ACL", "DELUSER", "clerk")
    client.close()


def test_a_password_that_is_missing(refusal, closed):
    error = refusal(closed.url)

    assert isinstance(error, ConfigurationError)
    assert "asks for a password; give one in the URL" in str(error)


@pytest.mark.parametrize("who", ["", "clerk"])
def test_a_password_that_is_wrong(refusal, closed, who):
    error = refusal(f"redis://{who}:{PASSWORD}@127.0.0.1:{closed.port}")

    assert isinstance(error, ConfigurationError)
    assert "rejected this user name or password" in str(error)


def test_a_database_that_is_not_there(refusal):
    error = refusal(f"{shared_server().url}/99")

    assert isinstance(error, ConfigurationError)
    assert "no such database" in str(error)


SMALLEST = acl.smallest("lockfast").split()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("-evalsha", "may not run EVALSHA: it needs +evalsha"),
        ("-script", "may not run SCRIPT|LOAD: it needs +script|load"),
        ("-hmget", "may not run HMGET: it needs +hmget"),
        ("-hset", "may not run HSET: it needs +hset"),
        ("-time", "may not run TIME: it needs +time"),
        ("resetkeys", "may not use our keys: it needs ~<namespace>:*, by default ~lockfast:*"),
    ],
)
def test_what_a_user_may_not_is_named(refusal, user, change, named):
    """The error names the missing command, even inside a script, or the missing key pattern."""
    error = refusal(user(*SMALLEST, change))

    assert isinstance(error, ConfigurationError)
    assert named in str(error)
    assert "lockfast doctor" in str(error)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("resetchannels", "it needs &<namespace>:inbox:*, by default &lockfast:inbox:*"),
        ("-subscribe", "may not run SUBSCRIBE: it needs +subscribe"),
    ],
)
def test_who_may_take_locks_and_not_wait_for_them_is_told_so(flavour, user, change, named):
    """A permission that only waiting needs is reported at the first wait."""
    with_rights = flavour.locks(shared_server().url).lock("door")
    lease = with_rights.acquire()
    lock = flavour.locks(user(*SMALLEST, change)).lock("door")

    with pytest.raises(ConfigurationError) as told:
        lock.acquire(timeout=5)

    assert named in str(told.value)
    lease.release()
