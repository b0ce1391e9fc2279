"""The newest memcached, whose replies contain more than those of the distribution's version."""

from __future__ import annotations

import pytest
from servers.memcached import NewerMemcachedServer

from lockfast import BackendUnavailable
from lockfast_challenge.processes import eventually

NEWER = (1, 6, 38)
"""From this version on, `OK` precedes a list of keys."""


@pytest.fixture
def newer(outliving) -> NewerMemcachedServer:
    server = outliving.enter_context(NewerMemcachedServer())
    [version] = server.say(b"version\r\n")
    assert tuple(map(int, version.split()[1].split(b"."))) >= NEWER
    return server


def test_a_survey_of_the_newest_memcached_shows_what_is_held_now(flavour, newer):
    """Each survey reads the whole reply: unread lines would be taken for part of the next reply."""
    locks = flavour.locks(newer.url, ttl=60.0, request_timeout=20.0)
    seen: list[list[str]] = []

    for name in ("a", "b", "c"):
        locks.lock(name).acquire(timeout=30.0)
        # The server may still be busy with the list that was requested before.
        eventually(
            lambda: not seen.append([one.name for one in locks.survey()]),
            despite=(BackendUnavailable,),
        )

    assert seen == [["a"], ["a", "b"], ["a", "b", "c"]]


def test_the_doctor_examines_the_newest_memcached(flavour, newer):
    locks = flavour.locks(newer.url, request_timeout=20.0)

    levels = {one.level for one in locks.diagnose()}

    assert levels <= {"ok", "note", "warning"}
