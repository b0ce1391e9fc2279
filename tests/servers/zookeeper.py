"""ZooKeeper servers that the tests share: one in a run, an ensemble in a folder."""

from __future__ import annotations

from functools import cache

from servers.sharing import shared_in_its_room

from lockfast_challenge.servers.zookeeper import Ensemble, ZooKeeperServer


@cache
def shared_server() -> ZooKeeperServer:
    """Return a server that all tests of this run share; use your own namespace."""
    return ZooKeeperServer().start()


@shared_in_its_room
def shared_ensemble() -> Ensemble:
    """Return an ensemble that all tests of this folder share; heal it before use."""
    return Ensemble().start()


@shared_in_its_room
def shared_patient_ensemble() -> Ensemble:
    """Return an ensemble that tolerates a stalled machine, for tests that are not about stalls.

    A member that has not heard from its leader for `syncLimit` ticks disconnects all its clients.
    """
    return Ensemble(settings={"initLimit": 300, "syncLimit": 300}).start()
