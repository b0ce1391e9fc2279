"""The way to all nodes of a cluster; `cluster/` says the rules, and decides."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

from lockfast._async.single_flight import AsyncSingleFlight
from lockfast.backends.redis.cluster.coverage import UNNAMED, Coverage
from lockfast.backends.redis.cluster.maps import SLOT_MAP, Poll, SlotMap, candidates, read_map
from lockfast.backends.redis.connection.aio import Wire
from lockfast.backends.redis.resp import Refusal, Reply
from lockfast.backends.redis.routing import (
    FIRST_PAUSE,
    FRESH,
    LONGEST_PAUSE,
    Endpoint,
    RoutedRequest,
    attempt_until,
    batches,
    by_node,
    learn,
    routes_of,
)
from lockfast.backends.redis.subscription.aio import ClusterSubscription, Subscription
from lockfast.core.backoff import delay
from lockfast.errors import BackendUnavailable, LockError, OutcomeUnknown
from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockfast.backends.redis.addresses import Address
    from lockfast.runtime.clock import Clock


class AsyncNodeWire(Wire):
    """The way to one node."""

    def _greeted(self, answer: object) -> None:
        """Take any answer: who is no node of a cluster tells no map of slots."""


class AsyncCluster:
    """The way to all nodes of a cluster."""

    is_sharded = True

    def __init__(
        self, address: Address, *, kind: type, options: dict[str, Any], clock: Clock
    ) -> None:
        self.where = address.where
        self._address = address
        self._options = options
        self._kind = kind
        self._clock = clock
        self._wires: dict[Endpoint, Wire] = {}
        self._slots: SlotMap | None = None
        self._looked_at = 0.0
        self._looking = AsyncSingleFlight[SlotMap](clock)
        self._is_doubtful = True
        self._suspects: set[Endpoint] = set()
        self._listening_at: Endpoint | None = None

    # -- asking ------------------------------------------------------------------------

    async def ask(self, request: bytes, *, deadline: float, ahead: bytes = b"") -> Reply:
        """Return the reply to one command; see Wire."""
        route = RoutedRequest.for_request(request)
        slots = self._slots
        if not self._is_doubtful and slots is not None and route.slot is not None:
            # The usual case: the map is right, and one command is all there is to send.
            node = slots.owners[route.slot]
            if node is not None:
                try:
                    reply = await self._wire(node).ask(request, deadline=deadline, ahead=ahead)
                except OutcomeUnknown:
                    self._suspect(node)
                    raise
                except BackendUnavailable:
                    self._suspect(node)
                else:
                    if reply.__class__ is not Refusal:
                        return reply
                    self._hear(route, [reply], node)
                    self._learn([route], slots)
        if not route.is_over:
            await self._run([route], deadline)
        if isinstance(route.outcome, LockError):
            raise route.outcome
        return route.outcome

    async def ask_all(self, requests: Sequence[bytes], *, deadline: float) -> list[Reply]:
        """Return the replies to several commands, each node's sent together.

        No node waits for another's answers. An error stands in place of a missing one.
        """
        routes = routes_of(requests)
        groups = by_node(routes, await self._known_map(deadline))
        await runtime.gather([partial(self._run, one, deadline) for one in groups.values()])
        return [outcome for one in routes for outcome in one.outcomes()]

    def parts(self, requests: Sequence[bytes]) -> dict[str, list[int]]:
        """Return the numbers of the requests that go to each node, as far as is known."""
        parts: dict[str, list[int]] = {}
        for i, request in enumerate(requests):
            [node] = by_node([RoutedRequest.for_request(request)], self._slots)
            parts.setdefault(str(node), []).append(i)
        return parts

    async def _run(self, routes: list[RoutedRequest], deadline: float) -> None:
        """See the routed requests through, or until the deadline."""
        attempt = 0
        while True:
            try:
                slots = await self._map_for(routes, deadline)
            except LockError as error:
                for one in routes:
                    one.fail(error)
            else:
                for node, some in batches(routes, slots):
                    await self._send(node, some, deadline)
                self._learn(routes, slots)
            routes = [one for one in routes if not one.is_over]
            if not routes:
                return
            if any(one.must_pause for one in routes):
                jitter = self._clock.jitter()
                pause = delay(attempt, jitter=jitter, first=FIRST_PAUSE, most=LONGEST_PAUSE)
                attempt += 1
                if self._clock.now() + pause >= deadline:
                    for one in routes:
                        one.give_up(where=self.where)
                    return
                await runtime.sleep(pause)

    async def _send(
        self, node: Endpoint | None, routes: list[RoutedRequest], deadline: float
    ) -> None:
        requests = [part for one in routes for part in one.requests()]
        try:
            if node is None:
                raise self._no_owner(routes)
            replies = await self._wire(node).ask_all(requests, deadline=deadline)
        except LockError as error:
            self._suspect(node)
            for one in routes:
                one.fail(error)
            return
        for one in routes:
            size = len(one.requests())
            own, replies = replies[:size], replies[size:]
            self._hear(one, own, node)

    def _no_owner(self, routes: list[RoutedRequest]) -> BackendUnavailable:
        slots = self._slots
        if slots is not None and any(one.slot in slots.unnamed for one in routes):
            return BackendUnavailable(f"{self.where}: {UNNAMED}")
        return BackendUnavailable(f"{self.where}: no node serves the slot at the moment")

    def _hear(self, route: RoutedRequest, replies: list[Reply], node: Endpoint) -> None:
        if route.hear(replies, asked=node, remap=self._address.remap):
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

    def _wire(self, node: Endpoint) -> Wire:
        wire = self._wires.get(node)
        if wire is None:
            wire = AsyncNodeWire(
                kind=self._kind,
                options={**self._options, "host": node.host, "port": node.port},
                clock=self._clock,
                where=f"{self.where} (node {node})",
            )
            # Of two threads that make one, the first one's is used by both.
            wire = self._wires.setdefault(node, wire)
        return wire

    # -- the map -----------------------------------------------------------------------

    async def coverage(self, *, deadline: float) -> Coverage:
        """Return what is served, by a map that is asked for now and each master's own word.

        The deadline is for each of the two, so that slow nodes do not hide the others.
        """
        patience = deadline - self._clock.now()
        self._is_doubtful, self._looked_at = True, 0.0
        slots = await self._map(deadline)
        masters, until = list(slots.masters), self._clock.now() + patience
        views = await runtime.gather([partial(self._told_by, one, until) for one in masters])
        return Coverage.of(slots, dict(zip(masters, views, strict=True)))

    def node(self, node: Endpoint) -> Wire:
        """Return the way to one node."""
        return self._wire(node)

    async def _known_map(self, deadline: float) -> SlotMap | None:
        try:
            return await self._map(deadline)
        except LockError:
            return self._slots  # those who need it will hear what is wrong

    async def _map_for(self, routes: list[RoutedRequest], deadline: float) -> SlotMap:
        # Who was pointed to a node goes there at once, whatever else may have moved.
        if self._slots is not None and all(one.node is not None for one in routes):
            return self._slots
        return await self._map(deadline)

    async def _map(self, deadline: float) -> SlotMap:
        """Return the map, asked for anew if a node did not answer since."""
        slots = self._slots
        if slots is not None and not self._needs_map():
            return slots
        # All who need it meanwhile wait for the same answer; none of them can cancel it.
        looking = await self._looking.fly(partial(self._look, deadline), deadline=deadline)
        if looking.is_known:
            return looking.result()
        if looking.is_cut_off:
            raise BackendUnavailable(f"{self.where}: closed before a node told the map")
        raise BackendUnavailable(f"{self.where}: no node tells the map in time")

    def _needs_map(self) -> bool:
        return self._is_doubtful and self._clock.now() - self._looked_at >= FRESH

    async def _look(self, deadline: float) -> SlotMap:
        poll = Poll(
            self._slots,
            seeds=self._address.endpoints,
            suspects=self._suspects,
            start=self._clock.jitter(),
        )
        while (node := poll.next(now := self._clock.now())) is not None:
            told = await self._told_by(node, poll.until(now=now, deadline=deadline))
            poll.hear(node, told, now=self._clock.now())
        slots = poll.elected(where=self.where)
        self._looked_at = self._clock.now()
        self._is_doubtful = False
        self._suspects = poll.doubted(slots)
        self._slots = slots
        await self._forget_strangers(slots)
        return slots

    async def _told_by(self, node: Endpoint, until: float) -> SlotMap | LockError:
        try:
            reply = await self._wire(node).ask(SLOT_MAP, deadline=until)
        except LockError as error:
            return error
        return read_map(reply, told_by=node, remap=self._address.remap, where=self.where)

    def _candidates(self) -> list[Endpoint]:
        jitter = self._clock.jitter()
        return candidates(
            self._slots, seeds=self._address.endpoints, suspects=self._suspects, start=jitter
        )

    async def _forget_strangers(self, slots: SlotMap) -> None:
        for node in set(self._wires) - slots.nodes - set(self._address.endpoints):
            await self._wires.pop(node).close()

    # -- listening ---------------------------------------------------------------------

    async def subscribe(
        self, channel: bytes, hear: Callable[[bytes], None], *, deadline: float
    ) -> Subscription:
        """Return a subscription to the channel at any node: messages reach them all."""
        if self._listening_at is not None:
            # Who asks for another one has lost the last: that node is not the first to try.
            self._suspect(self._listening_at)
        await self._map(deadline)
        failure: LockError | None = None
        for node in self._candidates():
            until = attempt_until(now=self._clock.now(), deadline=deadline)
            try:
                subscription = await self._wire(node).subscribe(
                    channel, hear, deadline=until, kind=ClusterSubscription
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
        """Let no connection that was made before be used again, nor listened to."""
        for wire in list(self._wires.values()):
            wire.leave()

    async def close(self) -> None:
        """Close the connections to all nodes."""
        wires = list(self._wires.values())
        await runtime.each_in_turn(self._looking.end, *(wire.close for wire in wires))

    def after_fork_in_child(self) -> None:
        """Leave the parent's connections alone."""
        for wire in self._wires.values():
            wire.after_fork_in_child()
        self._looking.after_fork_in_child()
