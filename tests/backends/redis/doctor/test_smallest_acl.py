"""The smallest ACL on the Redis page: enough for everything we do, and for nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import redis

from lockfast import ConfigurationError
from lockfast.backends.redis import acl

PAGE = Path(__file__).parents[4] / "docs" / "backends" / "redis.md"
SMALLEST = acl.smallest("lockfast").split()


@pytest.fixture
def user(server, admin):
    """Return a function that sets the rules of the user `clerk` and returns a URL for that user."""

    def rules(*changes: str) -> str:
        admin.execute_command("ACL", "SETUSER", "clerk", "reset", "on", ">pw", *changes)
        return f"redis://clerk:pw@127.0.0.1:{server.port}"

    return rules


def test_it_is_the_one_on_the_page():
    text = re.sub(r"\\\n\s*", "", PAGE.read_text(encoding="utf-8"))

    assert " ".join(SMALLEST) in text


def test_everything_works_with_it(flavour, user, eventually):
    """Every primitive and every verb works for a user with no other permissions."""
    url = user(*SMALLEST)
    locks, other = flavour.locks(url), flavour.locks(url)

    lock = locks.lock("door", lock_delay=0.01, min_hold=0.01)
    lease = lock.acquire()
    waiter = flavour.start(other.lock("door").acquire, timeout=10)
    eventually(lambda: locks.inspect("door").line)
    lease.renew()
    lease.release()
    following = waiter.result(10)
    assert [one.token for one in locks.break_("door")] == [following.token]
    saga = [one.lock("saga", owner="saga-42") for one in (locks, other)]
    assert saga[0].acquire().token == saga[1].acquire().token
    read, write = locks.rwlock("page").read(), other.rwlock("page").write()
    reading = read.acquire()
    assert write.try_acquire() is None
    reading.release()
    permits = locks.semaphore("pool", capacity=3, permits=2)
    permits.acquire(timeout=20)
    with pytest.raises(TimeoutError):
        other.semaphore("pool", capacity=3, permits=2).acquire(timeout=0.05)
    assert {one.name for one in locks.survey()} >= {"pool", "saga"}
    levels = {one.subject: one.level for one in locks.diagnose()}
    assert levels["permissions"] == "ok"


@pytest.mark.parametrize(
    "command",
    [
        ("FLUSHALL",),
        ("FLUSHDB",),
        ("KEYS", "*"),
        ("GET", "lockfast:{door}:door"),
        ("DEL", "lockfast:{door}:door"),
        ("HSET", "other", "field", "value"),
        ("HGET", "other", "field"),
        ("PUBLISH", "other", "message"),
        ("PUBLISH", "lockfast:news", "message"),
        ("SUBSCRIBE", "other"),
        ("EVAL", "return 1", "0"),
        ("SCRIPT", "FLUSH"),
        ("CONFIG", "GET", "*"),
        ("INFO",),
        ("ACL", "LIST"),
        ("CLIENT", "KILL", "TYPE", "pubsub"),
        ("SHUTDOWN",),
        ("REPLICAOF", "NO", "ONE"),
        ("MONITOR",),
    ],
    ids=" ".join,
)
def test_nothing_else_may_be_done_with_it(server, user, command):
    user(*SMALLEST)

    with (
        server.client(username="clerk", password="pw") as client,
        pytest.raises(redis.exceptions.NoPermissionError),
    ):
        client.execute_command(*command)


def test_a_script_reaches_no_keys_but_ours(server, user):
    """A user with the smallest ACL cannot read other keys through a script of its own."""
    user(*SMALLEST)
    with server.client(username="clerk", password="pw") as client:
        sha = client.script_load("return redis.call('HGET', 'other', 'field')")

        with pytest.raises(redis.ResponseError, match="keys"):
            client.evalsha(sha, 0)


@pytest.mark.parametrize("command", acl.commands())
def test_a_command_that_is_missing_is_named(flavour, user, command):
    """The doctor reports an error that names any needed command that the user may not run."""
    rule = f"-{command.lower().replace(' ', '|')}"
    found = flavour.locks(user(*SMALLEST, rule)).diagnose()

    [one] = [one for one in found if one.subject == "permissions"]
    assert one.level == "error"
    assert re.search(rf"\b{command.replace(' ', '.')}\b", one.message)


@pytest.mark.parametrize("change", ["resetkeys", "resetchannels"])
def test_a_pattern_that_is_missing_is_named(flavour, user, change):
    found = flavour.locks(user(*SMALLEST, change)).diagnose()

    [one] = [one for one in found if one.subject == "permissions"]
    assert one.level == "error"
    assert "on lockfast:* and the channels lockfast:inbox:*" in one.message


def test_a_user_who_may_do_everything_is_told_so(finding):
    found = finding("permissions")

    assert found.level == "note"
    assert "FLUSHALL" in found.message
    assert " ".join(SMALLEST) in found.remedy


def test_settings_that_may_not_be_read_are_a_note(finding, user):
    """Managed services allow INFO but not CONFIG, so unreadable settings are only a note."""
    url = user(*SMALLEST, "+info")

    assert finding("settings", url).level == "note"
    assert "CONFIG GET may not be run" in finding("settings", url).message
    assert "INFO" not in finding("settings", url).message
    assert finding("eviction", url).level == "ok"
    assert finding("persistence", url).level == "warning"


def test_another_namespace_needs_another_pattern(flavour, user):
    url = user(*SMALLEST)

    with pytest.raises(ConfigurationError, match="may not use our keys"):
        flavour.locks(url, namespace="shop").lock("door").acquire(timeout=1)
