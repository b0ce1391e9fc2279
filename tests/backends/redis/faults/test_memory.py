"""A server that is out of memory and evicts nothing: holders carry on, no new claim is admitted."""

from __future__ import annotations

import pytest
import redis

from lockfast import BackendUnavailable
from lockfast.backends.redis import requests
from lockfast.backends.redis.scripts import redis_script


def test_a_full_server_renews_and_releases_what_is_held(flavour, server, diary, eventually):
    """A server without memory must still renew and release the leases that are held."""
    client = server.client()
    locks = flavour.locks(server.url, ttl=6, on_event=diary)
    lock, other = locks.lock("door"), locks.lock("window")
    lease, kept = lock.acquire(), other.acquire()
    client.config_set("maxmemory", 1)

    with pytest.raises(BackendUnavailable) as told:
        locks.lock("gate").acquire(timeout=5)
    before = diary.count("Renewed")
    eventually(lambda: diary.count("Renewed") >= before + 4)
    lease.release()

    assert "out of memory" in str(told.value)
    assert "Give it memory" in str(told.value)
    assert locks.inspect("door").holders == ()
    kept.check()
    assert diary.count("Lost") == 0
    client.config_set("maxmemory", 0)
    assert lock.acquire(timeout=0).token > lease.token
    client.close()


def test_those_in_line_of_a_full_server_keep_their_place(flavour, server, eventually):
    """Heartbeats need no memory, so waiters keep their place until memory is available again."""
    client = server.client()
    locks = flavour.locks(server.url)
    lock = locks.lock("door")
    lease = lock.acquire()
    # With a lock delay, an admitted waiter has to send another request, which needs memory.
    waiting = flavour.locks(server.url).lock("door", lock_delay=0.1)
    waiter = flavour.start(waiting.acquire, timeout=20)
    eventually(lambda: locks.inspect("door").line)

    client.config_set("maxmemory", 1)
    lease.release()
    eventually(lambda: client.info("errorstats").get("errorstat_OOM"))
    client.config_set("maxmemory", 0)

    assert waiter.result(20).token > lease.token
    client.close()


CLAIM = "0" * 32


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [
        ("renew", (CLAIM, 1_000_000)),
        ("release", (CLAIM, 1)),
        ("withdraw", (CLAIM, 1, 1_000_000)),
        ("beat", ("inbox", "client")),
        ("inspect", (0, "-inf")),
        ("break", (0,)),
    ],
)
def test_a_full_server_refuses_no_verb_but_acquire(server, verb, arguments):
    """Only an acquire needs memory; every other verb works on a full server."""
    keys = [f"lockfast:{{door}}:{one}" for one in requests.DOOR_KEYS]
    with server.client() as client:
        client.config_set("maxmemory", 1)

        client.evalsha(redis_script(verb).sha.decode(), len(keys), *keys, *arguments)
        with pytest.raises(redis.OutOfMemoryError):
            client.evalsha(redis_script("acquire").sha.decode(), len(keys), *keys, CLAIM, 1, "", "")
