"""What befalls a server or its sessions while somebody holds and somebody waits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from eventually import eventually
from fault_scene import Scene
from servers.mariadb import MariadbServer

from holdfast import LeaseLost

TTL = 15.0
"""Longer than a restart takes on a busy machine."""


@pytest.fixture(scope="module")
def own() -> Iterator[MariadbServer]:
    """Give a server that is killed and frozen at will."""
    with MariadbServer() as one:
        one.run("CREATE DATABASE test")
        yield one


@pytest.fixture
def scene(flavour, own) -> Scene:
    """Somebody holds, and another client waits behind it."""
    one = Scene(flavour)
    one.hold(own.url(), ttl=TTL)
    one.wait_behind(own.url(), ttl=TTL)
    return one


def end_sessions(server: MariadbServer) -> None:
    """End all sessions but the one that asks."""
    rows = server.run(
        "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = 'root'"
        " AND ID <> CONNECTION_ID()"
    )
    with server.connect() as connection, connection.cursor() as cursor:
        for (number,) in rows:
            try:
                cursor.execute("KILL %s", (number,))
            except Exception as error:  # noqa: BLE001 - it may have gone by itself
                assert error.args[0] == 1094, error  # noqa: PT017


def test_sessions_that_are_ended_cost_no_lease_and_no_place(scene, own) -> None:
    for _ in range(3):
        end_sessions(own)

    assert scene.is_passed_on()


def test_a_server_that_is_killed_and_comes_back_knows_all_it_has_committed(scene, own) -> None:
    own.kill()
    own.start()
    eventually(lambda: scene.waiting() == 1, despite=(Exception,), what="it answers again")

    assert scene.is_passed_on()


def test_a_server_that_stands_still_for_a_while_costs_no_lease(scene, own) -> None:
    scene.flavour.give_up_after(1.0)
    own.pause()
    eventually(lambda: scene.diary.count("AtRisk"), what="a renewal was not answered")
    own.resume()

    assert scene.is_passed_on()


def test_a_holder_that_is_killed_is_followed_when_its_ttl_is_over(
    puppet, own, flavour, name
) -> None:
    holder = puppet("sync", own.url(), ttl=1.0)
    token = holder.ask("acquire", name)
    waiting = flavour.start(flavour.locks(own.url()).lock(name).acquire, timeout=20)
    watcher = flavour.locks(own.url())
    eventually(lambda: watcher.inspect(name).line, what="it waits")

    holder.kill()

    successor = waiting.result(20)
    assert successor.token > token
    successor.release()


def test_a_holder_that_is_frozen_past_its_ttl_is_told(puppet, own, flavour, name) -> None:
    holder = puppet(flavour.name, own.url(), ttl=1.0)
    token = holder.ask("acquire", name)
    holder.freeze()

    successor = flavour.locks(own.url()).lock(name).acquire(timeout=20)

    assert successor.token > token
    holder.thaw()
    with pytest.raises(LeaseLost):
        holder.ask("check", name)
    successor.release()
