"""ZooKeeper servers that the tests share: one in a run, an ensemble in a room."""

from __future__ import annotations

from functools import cache

from servers.sharing import shared_in_its_room

from lockfast.challenge.servers.zookeeper import Ensemble, ZooKeeperServer


@cache
def shared_server() -> ZooKeeperServer:
    """Return a server that all tests of this run share; use a namespace of your own."""
    return ZooKeeperServer().start()


@shared_in_its_room
def shared_ensemble() -> Ensemble:
    """Return an ensemble that all tests of this room share; heal it before use."""
    return Ensemble().start()


@shared_in_its_room
def shared_patient_ensemble() -> Ensemble:
    """Return one whose members bear it when the machine stands still, where that is not on trial.

    Who has not heard of its leader for `syncLimit` ticks sends all its clients away.
    """
    return Ensemble(settings={"initLimit": 300, "syncLimit": 300}).start()
