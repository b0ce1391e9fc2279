"""A process out of file descriptors gets one of our errors, and can release what it holds."""

from __future__ import annotations

import pytest
from full_table import full_table

from lockfast import BackendUnavailable
from lockfast.backends.redis import requests
from lockfast.backends.redis.scripts import redis_script, script_text


def test_that_no_connection_can_be_opened_is_an_outage(flavour, server):
    """A full descriptor table is an outage, even where the driver fails to read a file."""
    locks = flavour.locks(server.url)
    locks.lock("door").acquire().release()
    flavour.call(locks._client.backend._transport.close)

    with full_table(), pytest.raises(BackendUnavailable):
        locks.lock("door").acquire()

    assert locks.lock("door").acquire().is_trusted


def test_that_no_sentinel_can_be_asked_is_an_outage(flavour):
    hosts = "127.0.0.1:1,127.0.0.1:2"
    locks = flavour.locks(f"redis+sentinel://{hosts}/mymaster", request_timeout=0.2)

    with full_table(), pytest.raises(BackendUnavailable):
        locks.lock("door").acquire()


def test_what_is_held_can_be_released(flavour, server):
    """A release opens no files: everything it needs was read when the client was created."""
    for read_before in (redis_script, script_text, requests.head_of_call):
        read_before.cache_clear()
    locks = flavour.locks(server.url)
    lease = locks.lock("door").acquire()

    with full_table():
        lease.release()

    assert not locks.lock("door").locked()
