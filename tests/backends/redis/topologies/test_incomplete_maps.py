"""What a cluster's map may lack: a node for a slot, and an address for a node."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lockfast import BackendUnavailable, ConfigurationError, LockError
from lockfast.cli.app import app
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.redis import until
from lockfast_challenge.servers.redis_cluster import slot_of


@contextmanager
def unserved(cluster: Any, slot: int, *, known_to_all: bool) -> Iterator[None]:
    """Leave the slot unserved; unless `known_to_all`, its owner's peers still name the owner."""
    owner = cluster.owner_of(slot)
    for one in cluster.servers if known_to_all else [owner]:
        cluster.ask(one, "CLUSTER", "DELSLOTS", slot)
    try:
        yield
    finally:
        cluster.ask(owner, "CLUSTER", "ADDSLOTS", slot)
        for one in cluster.servers:
            until(partial(_names_owner, cluster, one, slot), what="all nodes name its owner")


def _names_owner(cluster: Any, node: Any, slot: int) -> bool:
    return any(one[0] <= slot <= one[1] for one in cluster.ask(node, "CLUSTER", "SLOTS"))


def surveyed(one: Any) -> tuple[list[str], LockError | None]:
    """Return the names that a survey yields, and the error that it raises after them."""
    names: list[str] = []

    def in_threads() -> None:
        names.extend(seen.name for seen in one.locks.survey())

    async def in_a_loop() -> None:
        async for seen in one.locks.survey():
            names.append(seen.name)  # noqa: PERF401 - it raises after some of them

    try:
        one.call(in_threads if one.flavour == "sync" else in_a_loop)
    except LockError as error:
        return names, error
    return names, None


def shown_in_time(*arguments: str) -> Result:
    """Return the first output that names a slot; a busy machine may need several attempts."""
    results: list[Result] = []

    def is_shown() -> bool:
        results.append(CliRunner().invoke(app, arguments))
        return "no node serves" in results[-1].stderr

    eventually(is_shown, what="the slot is named")
    return results[-1]


@pytest.fixture
def endpoint_type(cluster) -> Iterator[Callable[[str], None]]:
    """Return a function that changes in which form all nodes announce their addresses."""

    def change(value: str) -> None:
        for one in cluster.servers:
            cluster.ask(one, "CONFIG", "SET", "cluster-preferred-endpoint-type", value)

    yield change
    change("ip")


@pytest.mark.usefixtures("masters_stay")
@pytest.mark.parametrize("known_to_all", [True, False])
def test_a_survey_lists_all_other_slots_and_then_names_the_unserved_one(
    cluster, drivers, namespace, known_to_all
):
    """A survey that lacks a slot ends in an error, so that it does not look complete."""
    clients = drivers(cluster.url, request_timeout=20.0)
    slot = slot_of("gone")
    leases = [(clients[0], clients[0].acquire("gone", ttl=60.0))]
    names = [cluster.name_on(one, "kept") for one in cluster.masters()]
    leases += [(clients[1], clients[1].acquire(name, ttl=60.0)) for name in names]

    with unserved(cluster, slot, known_to_all=known_to_all):
        found = [surveyed(one) for one in clients]
        here = ["--url", cluster.url, "--namespace", namespace]
        shown, told = (shown_in_time("ls", *form, *here) for form in ([], ["--json"]))

    for listed, error in found:
        assert listed == sorted(names)
        assert isinstance(error, BackendUnavailable)
        assert f"this list is incomplete: no node serves slot {slot} of 16384" in str(error)
    for result in (shown, told):
        assert result.exit_code == BackendUnavailable.exit_code
        assert all(name in result.stdout for name in names)
        assert f"no node serves slot {slot} of 16384" in result.stderr
    assert "incomplete" in json.loads(told.stdout)
    assert surveyed(clients[0]) == (sorted(["gone", *names]), None)
    for one, lease in leases:
        one.release(lease)


@pytest.mark.usefixtures("no_failover")
def test_a_survey_lists_what_the_other_nodes_have_when_one_does_not_answer(
    cluster, drivers, namespace
):
    [holder, _] = drivers(cluster.url, request_timeout=20.0)
    clients = drivers(cluster.url, request_timeout=3.0)  # the silent node uses up this time
    [silent, *others] = cluster.masters()
    names = [cluster.name_on(one, "kept") for one in (silent, *others)]
    for name in names:
        holder.acquire(name, ttl=60.0)

    def surveyed_in_time(one: Any) -> tuple[list[str], LockError | None]:
        """Survey again while a busy machine keeps the other nodes from answering in time."""
        found = []
        eventually(
            lambda: found.append(surveyed(one)) or found[-1][0] == sorted(names[1:]),
            what="the other nodes answer",
        )
        return found[-1]

    silent.pause()
    try:
        with ThreadPoolExecutor() as together:
            found = list(together.map(surveyed_in_time, clients))
    finally:
        silent.resume()

    for listed, error in found:
        assert listed == sorted(names[1:])
        assert isinstance(error, BackendUnavailable)
        assert f"127.0.0.1:{silent.port} (slots " in str(error)


def test_nodes_without_an_address_of_their_own_are_found_at_the_host_that_was_asked(
    cluster, drivers, endpoint_type, namespace
):
    """With unknown-endpoint, clients use the host that they asked, as Redis documents."""
    endpoint_type("unknown-endpoint")

    for one in drivers(cluster.url, request_timeout=20.0):
        for node in cluster.masters():
            one.release(one.acquire(cluster.name_on(node, one.flavour)))
        assert surveyed(one) == ([], None)


def test_nodes_that_announce_no_host_name_are_reported_as_such(cluster, drivers, endpoint_type):
    """The error names the setting to change, and does not claim that nodes were removed."""
    endpoint_type("hostname")

    for one in drivers(cluster.url, request_timeout=20.0):
        with pytest.raises(ConfigurationError, match="set cluster-announce-hostname") as caught:
            one.acquire("door")
        assert "removed" not in str(caught.value)


@pytest.mark.usefixtures("masters_stay")
def test_a_node_that_points_to_an_unnamed_one_is_not_followed(cluster, drivers, namespace):
    """A client that is redirected to a node without an address finds it on another map."""
    slot = slot_of("door")
    source = cluster.owner_of(slot)
    target = next(one for one in cluster.masters() if one is not source)
    clients = drivers(cluster.url, request_timeout=20.0)
    for one in clients:
        one.release(one.acquire("door"))
    cluster.ask(source, "CONFIG", "SET", "cluster-preferred-endpoint-type", "hostname")
    try:
        with cluster.moving(slot, source, target):
            pass
        for one in clients:
            one.release(one.acquire("door"))
    finally:
        cluster.ask(source, "CONFIG", "SET", "cluster-preferred-endpoint-type", "ip")


@pytest.fixture
def one_unnamed(cluster, endpoint_type) -> Iterator[Any]:
    """A master that announces no host name, in a cluster that lists nodes by host name."""
    [unnamed, *_] = cluster.masters()
    named = [one for one in cluster.servers if one is not unnamed]

    def listed() -> set[tuple[str, bool]]:
        maps = [cluster.ask(one, "CLUSTER", "SLOTS") for one in cluster.servers]
        nodes = [node for slots in maps for one in slots for node in one[2:]]
        return {(node[0], node[1] == unnamed.port) for node in nodes}

    for one in named:
        cluster.ask(one, "CONFIG", "SET", "cluster-announce-hostname", "localhost")
    endpoint_type("hostname")
    until(lambda: listed() == {("localhost", False), ("?", True)}, what="the names are known")
    yield unnamed
    for one in named:
        cluster.ask(one, "CONFIG", "SET", "cluster-announce-hostname", "")
    until(lambda: {host for host, _ in listed()} == {"?"}, what="the names are forgotten")


@pytest.mark.usefixtures("masters_stay")
def test_one_unnamed_node_costs_its_own_names_and_is_reported(
    cluster, drivers, namespace, one_unnamed
):
    """Requests, surveys and the doctor report a master without a host name; the rest works."""
    [other, *_] = [one for one in cluster.masters() if one is not one_unnamed]
    lost, kept = (cluster.name_on(one, "door") for one in (one_unnamed, other))

    clients = drivers(cluster.url, request_timeout=20.0)
    # The client keeps looking for the unnamed node until the request timeout.
    refused = [one.begin_acquire(lost) for one in drivers(cluster.url, request_timeout=10.0)]
    for one, future in zip(clients, refused, strict=True):
        with pytest.raises(BackendUnavailable, match="announces no host name"):
            future.result(60)
        lease = one.acquire(kept)
        listed, error = surveyed(one)
        one.release(lease)
        [found] = [each for each in one.call(one.locks.diagnose) if each.subject == "slots"]

        assert listed == [kept]
        assert "this list is incomplete" in str(error)
        assert "announces no host name" in str(error)
        assert found.level == "error"
        assert "cluster-announce-hostname" in found.remedy


@pytest.mark.usefixtures("no_failover")
def test_an_unnamed_node_is_reported_even_if_the_map_does_not_come_in_time(
    cluster, drivers, one_unnamed
):
    """The error names the cause known from the last map, not the lateness of the next map."""
    lost = cluster.name_on(one_unnamed, "door")
    clients = drivers(cluster.url, request_timeout=4.0)
    for one in clients:
        surveyed(one)  # this reads the map
    for node in cluster.servers:
        node.pause()
    try:
        refused = [one.begin_acquire(lost) for one in clients]
        for future in refused:
            with pytest.raises(BackendUnavailable, match="announces no host name") as reported:
                future.result(60)
            assert isinstance(reported.value.__cause__, BackendUnavailable)  # the next map was late
    finally:
        for node in cluster.servers:
            node.resume()
