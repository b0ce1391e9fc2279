"""The way to a cluster, asyncio flavour; `threads` is its pair."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from holdfast.backends.redis.cluster import listening
from holdfast.backends.redis.cluster.maps import SLOT_MAP, Poll, SlotMap, candidates, read_map
from holdfast.backends.redis.connection.aio import Link, Wire
from holdfast.backends.redis.resp import Refusal, Reply
from holdfast.backends.redis.routing import (
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
from holdfast.backends.redis.subscription.aio import Subscription
from holdfast.core.backoff import delay
from holdfast.errors import BackendUnavailable, LockError, OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.backends.redis.addresses import Address
    from holdfast.runtime.clock import Clock


class NodeWire(Wire):
    """The way to one node."""

    def _greeted(self, answer: object) -> None:
        """Take any answer: who is no node of a cluster tells no map of slots."""


class Cluster:
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
        self._looking: asyncio.Task[SlotMap] | None = None
        self._is_doubtful = True
        self._suspects: set[Endpoint] = set()
        self._listening_at: Endpoint | None = None

    # -- asking ------------------------------------------------------------------------

    async def ask(self, request: bytes, *, deadline: float) -> Reply:
        """Return the reply to one command; see Wire."""
        route = RoutedRequest.for_request(request)
        slots = self._slots
        if not self._is_doubtful and slots is not None and route.slot is not None:
            # The usual case: the map is right, and one command is all there is to send.
            node = slots.owners[route.slot]
            if node is not None:
                try:
                    reply = await self._wire(node).ask(request, deadline=deadline)
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
        await asyncio.gather(*(self._run(group, deadline) for group in groups.values()))
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
                await asyncio.sleep(pause)

    async def _send(
        self, node: Endpoint | None, routes: list[RoutedRequest], deadline: float
    ) -> None:
        requests = [part for one in routes for part in one.requests()]
        try:
            if node is None:
                raise BackendUnavailable(f"{self.where}: no node serves the slot at the moment")
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
            wire = self._wires[node] = NodeWire(
                kind=self._kind,
                options={**self._options, "host": node.host, "port": node.port},
                clock=self._clock,
                where=f"{self.where} (node {node})",
            )
        return wire

    # -- the map -----------------------------------------------------------------------

    async def masters(self, *, deadline: float) -> list[Wire]:
        """Return the way to each node that serves slots, by a map that is asked for now."""
        return list((await self.nodes(deadline=deadline)).values())

    async def nodes(self, *, deadline: float) -> dict[Endpoint, Wire]:
        """Return those ways by where they lead to."""
        self._is_doubtful, self._looked_at = True, 0.0
        return {one: self._wire(one) for one in (await self._map(deadline)).masters}

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
        now = self._clock.now()
        if self._slots is not None and (not self._is_doubtful or now - self._looked_at < FRESH):
            return self._slots
        # All who need it meanwhile wait for the same answer; none of them can cancel it.
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look(deadline))
            self._looking.add_done_callback(self._looked)
        # Not by `asyncio.timeout`: a release asks inside a shield, which keeps it out.
        looking = self._looking
        done, _ = await asyncio.wait([looking], timeout=max(0.0, deadline - now))
        if not done:
            raise BackendUnavailable(f"{self.where}: no node tells the map in time")
        if looking.cancelled():
            raise BackendUnavailable(f"{self.where}: closed before a node told the map")
        return looking.result()

    def _looked(self, task: asyncio.Task[SlotMap]) -> None:
        self._looking = None
        if not task.cancelled():
            task.exception()  # whoever waited for it has heard it

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

    async def close(self) -> None:
        """Close the connections to all nodes."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])
        for wire in self._wires.values():
            await wire.close()

    def after_fork_in_child(self) -> None:
        """Leave the parent's connections alone."""
        for wire in self._wires.values():
            wire.after_fork_in_child()
        self._looking = None


class ClusterSubscription(Subscription):
    """Hears one channel, and notices when the node falls silent or leaves the cluster.

    The node may serve none of our names: then no request of ours would notice it.
    """

    def __init__(self, link: Link, channel: bytes, *, clock: Clock) -> None:
        super().__init__(link, channel, clock=clock)
        self._asked_at = -listening.ASK_EVERY
        self._question = b""
        self._is_deaf = False

    def asking(self, channel: bytes) -> ClusterSubscription:
        """Know what to ask the node, now and then."""
        self._question = listening.question(channel)
        return self

    async def listen(self, *, until: float) -> bool:
        """Return then, or when kicked; false once the node is gone, or deaf."""
        now = asyncio.get_running_loop().time()
        if self._is_deaf:
            return False
        if self._link.is_open and now - self._asked_at >= listening.ASK_EVERY:
            self._asked_at = now
            # Unanswered in time, it breaks the link.
            reply = self._link.send(self._question, deadline=now + listening.PATIENCE)
            reply.add_done_callback(self._answered)
        return await super().listen(until=until) and not self._is_deaf

    def _answered(self, reply: asyncio.Future[Reply]) -> None:
        # A lost one is nobody's: the link tells of it.
        if not reply.cancelled() and reply.exception() is None:
            self._is_deaf = listening.is_deaf(reply.result())
            if self._is_deaf:
                self.kick()
