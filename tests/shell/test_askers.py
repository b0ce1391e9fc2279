"""How a client records who asks: each thread or task by itself, and no more than necessary."""

from __future__ import annotations

import threading

import lockfast
from lockfast.client._sync.client import ASKERS_MAX
from lockfast.model import Owner


def test_every_asker_is_told_from_the_others_however_many_there_were():
    """Askers stay distinct, even after the cached texts of the first ones had to make room."""
    threads = [threading.Thread(name=f"worker {number}") for number in range(ASKERS_MAX + 10)]
    with lockfast.Locks("memory://") as locks:
        client = locks._client

        told = [client.stored_owner(thread) for thread in threads]

        assert [Owner.from_text(one).context for one in told] == [one.name for one in threads]
        assert len({Owner.from_text(one).asker for one in told}) == len(threads)
        assert [client.stored_owner(one) for one in threads] == told
        assert len(client._as_stored) <= ASKERS_MAX


def test_one_that_took_the_place_of_another_in_memory_is_asked_for_its_name():
    """A memory address is reused as soon as the thread or task at that address is gone."""
    thread = threading.Thread(name="before")
    with lockfast.Locks("memory://") as locks:
        locks._client.stored_owner(thread)
        thread.name = "after"

        assert Owner.from_text(locks._client.stored_owner(thread)).context == "after"
