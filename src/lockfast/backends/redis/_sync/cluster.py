# Generated from src/lockfast/backends/redis/_async/cluster.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The transport to all nodes of a cluster; `routing` and `cluster_map` make the decisions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

from lockfast.backends._sync.single_flight import SingleFlight
from lockfast.backends.redis.cluster_map import (
    SLOT_MAP,
    UNNAMED,
    Coverage,
    MapPoll,
    SlotMap,
    candidates,
    read_map,
)
from lockfast.backends.redis.connection_threads import (
    ClusterSubscription,
    RedisSubscription,
    RedisTransport,
)
from lockfast.backends.redis.resp import ErrorReply, Reply
from lockfast.backends.redis.routing import (
    FIRST_RETRY_SECONDS,
    LONGEST_RETRY_SECONDS,
    MAP_FRESH_SECONDS,
    RoutedRequest,
    attempt_until,
    batches,
    by_node,
    learn,
    routes_of,
)
from lockfast.core.backoff import delay
from lockfast.errors import BackendUnavailable, LockError, OutcomeUnknown
from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockfast.backends.redis.address import Address
    from lockfast.core.descriptor import Endpoint
    from lockfast.runtime.clock import Clock


class ClusterNodeTransport(RedisTransport):
    """The transport to one node."""

    def _check_greeting(self, greeting: dict[Any, Any]) -> None:
        """Accept any reply; a server outside a cluster is detected later by its missing map."""


class ClusterTransport:
    """The transport to all nodes of a cluster."""

    is_sharded = True

    def __init__(self, address: Address, *, clock: Clock) -> None:
        self.where = address.where
        self._address = address
        self._clock = clock
        self._transports: dict[Endpoint, RedisTransport] = {}
        self._slots: SlotMap | None = None
        self._map_requested_at = 0.0
        self._map_trouble = ""
        """Why the last request for the map failed, in words."""
        self._map_flight = SingleFlight[SlotMap](clock)
        self._is_doubtful = True
        self._suspects: set[Endpoint] = set()
        self._listening_at: Endpoint | None = None

    # -- requests ----------------------------------------------------------------------

    def ask(self, request: bytes, *, deadline: float) -> Reply:
        """Return the reply to one command, from the node that serves its slot."""
        route = RoutedRequest.for_request(request)
        slots = self._slots
        if not self._is_doubtful and slots is not None and route.slot is not None:
            # The usual case: the map is right, and there is only one command to send.
            node = slots.owners[route.slot]
            if node is not None:
                try:
                    reply = self._transport(node).ask(request, deadline=deadline)
                except OutcomeUnknown:
                    self._suspect(node)
                    raise
                except BackendUnavailable:
                    self._suspect(node)
                else:
                    if reply.__class__ is not ErrorReply:
                        return reply
                    self._deliver(route, [reply], node)
                    self._learn([route], slots)
        if not route.is_over:
            self._run([route], deadline)
        if isinstance(route.outcome, LockError):
            raise route.outcome
        return route.outcome

    def send_all(self, requests: Sequence[bytes], *, deadline: float) -> list[Reply]:
        """Return the replies to several commands; those for the same node are sent together.

        The requests to one node do not wait for the replies of another. An error takes the place of
        a missing reply.
        """
        routes = routes_of(requests)
        groups = by_node(routes, self._known_map(deadline))
        runtime.gather([partial(self._run, one, deadline) for one in groups.values()])
        return [outcome for one in routes for outcome in one.outcomes()]

    def parts(self, requests: Sequence[bytes]) -> dict[str, list[int]]:
        """Return the indices of the requests for each node, according to the current map."""
        parts: dict[str, list[int]] = {}
        for i, request in enumerate(requests):
            [node] = by_node([RoutedRequest.for_request(request)], self._slots)
            parts.setdefault(str(node), []).append(i)
        return parts

    def _run(self, routes: list[RoutedRequest], deadline: float) -> None:
        """Send the routed requests until each has its outcome, or until the deadline."""
        attempt = 0
        while True:
            try:
                slots = self._map_for(routes, deadline)
            except LockError as error:
                for one in routes:
                    one.fail(self._explained(error, one))
            else:
                for node, some in batches(routes, slots):
                    self._send(node, some, deadline)
                self._learn(routes, slots)
            routes = [one for one in routes if not one.is_over]
            if not routes:
                return
            if any(one.must_pause for one in routes):
                jitter = self._clock.jitter()
                pause = delay(
                    attempt, jitter=jitter, first=FIRST_RETRY_SECONDS, most=LONGEST_RETRY_SECONDS
                )
                attempt += 1
                if self._clock.now() + pause >= deadline:
                    for one in routes:
                        one.give_up(where=self.where)
                    return
                runtime.sleep(pause)

    def _send(self, node: Endpoint | None, routes: list[RoutedRequest], deadline: float) -> None:
        requests = [part for one in routes for part in one.requests()]
        try:
            if node is None:
                outage = BackendUnavailable(f"{self.where}: no node serves the slot at the moment")
                raise self._explained(outage, *routes)
            replies = self._transport(node).send_all(requests, deadline=deadline)
        except LockError as error:
            self._suspect(node)
            for one in routes:
                one.fail(error)
            return
        for one in routes:
            size = len(one.requests())
            own, replies = replies[:size], replies[size:]
            self._deliver(one, own, node)

    def _explained(self, error: LockError, *routes: RoutedRequest) -> LockError:
        unnamed = () if self._slots is None else self._slots.unnamed
        if isinstance(error, BackendUnavailable) and any(one.slot in unnamed for one in routes):
            # The missing address is the cause, even if the time ran out while the map was requested
            # again.
            unreachable = BackendUnavailable(f"{self.where}: {UNNAMED}")
            unreachable.__cause__ = error
            return unreachable
        return error

    def _deliver(self, route: RoutedRequest, replies: list[Reply], node: Endpoint) -> None:
        if route.deliver(replies, asked=node, remap=self._address.remap):
            self._suspect(node)
        else:
            self._suspects.discard(node)

    def _learn(self, routes: list[RoutedRequest], slots: SlotMap) -> None:
        if learn(routes, slots):
            self._is_doubtful = True

    def _suspect(self, node: Endpoint | None) -> None:
        self._is_doubtful = True
        if node is not None:
            self._suspects.add(node)

    def _transport(self, node: Endpoint) -> RedisTransport:
        transport = self._transports.get(node)
        if transport is None:
            server = self._address.server.at(node, where=f"{self.where} (node {node})")
            transport = ClusterNodeTransport(server, clock=self._clock)
            # If two threads create a transport to the same node, both threads use the first
            # transport.
            transport = self._transports.setdefault(node, transport)
        return transport

    # -- the map -----------------------------------------------------------------------

    def coverage(self, *, deadline: float) -> Coverage:
        """Return which slots are served, according to a fresh map and to each master's own report.

        The request for the map and the requests to the masters each get the full time that is left
        until the deadline, so that slow nodes do not hide the others.
        """
        patience = deadline - self._clock.now()
        self._is_doubtful, self._map_requested_at = True, 0.0
        slots = self._map(deadline)
        masters, until = list(slots.masters), self._clock.now() + patience
        views = runtime.gather([partial(self._request_map, one, until) for one in masters])
        return Coverage.of(slots, dict(zip(masters, views, strict=True)))

    def node(self, node: Endpoint) -> RedisTransport:
        """Return the transport to one node."""
        return self._transport(node)

    def _known_map(self, deadline: float) -> SlotMap | None:
        try:
            return self._map(deadline)
        except LockError:
            return self._slots  # a request that needs the map reports what is wrong

    def _map_for(self, routes: list[RoutedRequest], deadline: float) -> SlotMap:
        # Send redirected requests to their nodes at once, without a new map, even if other slots
        # may have moved.
        if self._slots is not None and all(one.node is not None for one in routes):
            return self._slots
        return self._map(deadline)

    def _map(self, deadline: float) -> SlotMap:
        """Return the slot map; request a new one if the known map may be outdated."""
        slots = self._slots
        if slots is not None and not self._needs_map():
            return slots
        # Concurrent callers share one request for the map, and none of them can cancel it.
        looking = self._map_flight.run_shared(partial(self._look, deadline), deadline=deadline)
        if looking.is_known:
            return looking.result()
        if looking.is_stopped:
            raise BackendUnavailable(f"{self.where}: closed before a node told the map")
        before = f"; before that: {self._map_trouble}" if self._map_trouble else ""
        raise BackendUnavailable(f"{self.where}: no node tells the map in time{before}")

    def _needs_map(self) -> bool:
        return self._is_doubtful and self._clock.now() - self._map_requested_at >= MAP_FRESH_SECONDS

    def _look(self, deadline: float) -> SlotMap:
        poll = MapPoll(
            self._slots,
            seeds=self._address.endpoints,
            suspects=self._suspects,
            start=self._clock.jitter(),
        )
        while (node := poll.next(now := self._clock.now())) is not None:
            reported = self._request_map(node, poll.until(now=now, deadline=deadline))
            poll.deliver(node, reported, now=self._clock.now())
        try:
            slots = poll.elected(where=self.where)
        except LockError as error:
            self._map_trouble = str(error)
            raise
        self._map_requested_at = self._clock.now()
        self._is_doubtful, self._map_trouble = False, ""
        self._suspects = poll.doubted(slots)
        self._slots = slots
        self._close_removed_nodes(slots)
        return slots

    def _request_map(self, node: Endpoint, until: float) -> SlotMap | LockError:
        try:
            reply = self._transport(node).ask(SLOT_MAP, deadline=until)
        except LockError as error:
            return error
        return read_map(reply, reported_by=node, remap=self._address.remap, where=self.where)

    def _candidates(self) -> list[Endpoint]:
        jitter = self._clock.jitter()
        return candidates(
            self._slots, seeds=self._address.endpoints, suspects=self._suspects, start=jitter
        )

    def _close_removed_nodes(self, slots: SlotMap) -> None:
        for node in set(self._transports) - slots.nodes - set(self._address.endpoints):
            self._transports.pop(node).close()

    # -- listening ---------------------------------------------------------------------

    def subscribe(
        self, channel: bytes, deliver: Callable[[bytes], None], *, deadline: float
    ) -> RedisSubscription:
        """Return a subscription to the channel at any node, because messages reach all nodes."""
        if self._listening_at is not None:
            # A new subscription means that the last one was lost, so try the last one's node after
            # the others.
            self._suspect(self._listening_at)
        self._map(deadline)
        failure: LockError | None = None
        for node in self._candidates():
            until = attempt_until(now=self._clock.now(), deadline=deadline)
            try:
                subscription = self._transport(node).subscribe(
                    channel, deliver, deadline=until, kind=ClusterSubscription
                )
            except (BackendUnavailable, OutcomeUnknown) as error:
                self._suspect(node)
                failure = error
                continue
            self._listening_at = node
            return cast("ClusterSubscription", subscription).asking(channel)
        raise failure or BackendUnavailable(f"{self.where} names no node")

    # -- closing -----------------------------------------------------------------------

    def leave(self) -> None:
        """Stop using every existing connection, for requests and for listening."""
        for transport in list(self._transports.values()):
            transport.leave()

    def close(self) -> None:
        """Close the connections to all nodes."""
        transports = list(self._transports.values())
        runtime.run_all_steps(self._map_flight.end, *(transport.close for transport in transports))

    def after_fork_in_child(self) -> None:
        """Abandon the parent's connections."""
        for transport in self._transports.values():
            transport.after_fork_in_child()
        self._map_flight.after_fork_in_child()
