"""The server ends our sessions, as an operator or a failover does: while one holds, waits, asks."""

from __future__ import annotations

from typing import Any

from ended_sessions import EndedSessions
from eventually import eventually


class TestEndedSessions(EndedSessions):
    """What it does to a SQL store."""


def test_the_victim_of_a_deadlock_tries_again(flavour, server, door, stranger, diary):
    """Another locks two names the other way round; whoever is made to give way comes later."""
    locks, names = (
        door.locks(on_event=diary, request_timeout=20),
        [f"{door.name} {n}" for n in "ab"],
    )
    leases = [locks.lock(one).acquire() for one in names]
    watchdog = getattr(locks, "_inner", locks)._client.watchdog
    before = deadlocks(server)

    stranger.lock(names[1])
    flavour.call(watchdog.hurry)
    eventually(stranger.is_waited_for)
    stranger.lock(names[0])
    stranger.let_go()

    eventually(lambda: diary.count("Renewed") == 2, what="both are renewed")
    assert deadlocks(server) == before + 1
    for lease in leases:
        lease.release()
    assert diary.count("Lost") == 0


def deadlocks(server: Any) -> int:
    [(_, count)] = server.run("SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'")
    return int(count)
