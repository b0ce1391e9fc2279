# Generated from src/holdfast/backends/zookeeper/_async/session.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""One session: what it carries, the proof that it lives, and the heartbeats that give it.

All claims of a client are nodes of one session and live as long as it does. Heartbeats go
on while it is open. While anything is held each is a transaction, since nothing less proves
that a lease may be trusted (`proof`); while nothing is, a `sync` is enough for the
next transaction, the create of an acquire, to confirm. After IDLE seconds with nothing to
carry it is closed, so that an idle client costs the ensemble nothing; the next acquire opens
another.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from kazoo.exceptions import KazooException, NoAuthError, NoNodeError

from holdfast._sync.single_flight import LAST_WORD, SingleFlight
from holdfast._sync.wakeups import Wakeups
from holdfast.backends.zookeeper import refusals, requests
from holdfast.backends.zookeeper.answers import checked
from holdfast.backends.zookeeper.connection.threads import Wire
from holdfast.backends.zookeeper.nodes import node_of
from holdfast.backends.zookeeper.proof import Proof
from holdfast.backends.zookeeper.watches import Watches
from holdfast.core.trust import trusted_until
from holdfast.errors import BackendError, LockError, OutcomeUnknown
from holdfast.runtime import threads as runtime

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.backends.zookeeper.address import Address
    from holdfast.backends.zookeeper.answers import Answer
    from holdfast.backends.zookeeper.claim_node import ClaimNode
    from holdfast.runtime.clock import Clock

IDLE = 30.0
"""With nothing to carry, the session is closed after so long."""

REQUEST = 2.0
"""How long one request of our own may take."""

PATIENCE = 3
"""Silent for this part of the ttl, a connection is cut: another member may answer in time."""

RETRIES = 12
"""A heartbeat that was not answered is repeated this often per ttl."""

SWEEP = 3
"""Every so many heartbeats we look for nodes of ours that nobody knows."""

NEVER = float("inf")

A_NO = (NoNodeError, NoAuthError)


class Session:
    """A session with an ensemble, from its opening to its end; there is no coming back."""

    def __init__(
        self, address: Address, *, ttl: float, clock: Clock, alarm: Callable[[], None]
    ) -> None:
        self.asked = ttl
        self.ttl = ttl
        self.places: dict[str, ClaimNode] = {}
        self.held: set[str] = set()
        """The claims that were granted and have not ended."""
        self.closing: dict[str, float] = {}
        """Nodes that were released and stay for their min_hold, and until when."""
        self.touching: dict[str, bytes] = {}
        """Nodes to be touched, until the server has answered."""
        self.wakeups = Wakeups(clock)
        self.watches = Watches(self._heard)
        self.wire = Wire(
            address.options, ttl=ttl, clock=clock, where=address.where, changed=self._changed
        )
        self._address = address
        self._clock = clock
        self._alarm = alarm
        self._state = runtime.StateLock()
        self._proof = Proof(opened_at=-NEVER, ttl=ttl)
        self._proving = SingleFlight[None](clock)
        self._silent_since: float | None = None
        self._kick = runtime.Event()
        self._task: runtime.Task | None = None
        self._is_ending = False
        self._is_dead = False
        self._beats = 0

    # -- life --------------------------------------------------------------------------

    def open(self, *, deadline: float) -> None:
        """Begin it; what the server granted is then in `ttl`."""
        self.wire.connect(deadline=deadline)
        greeting = self.wire.greeting
        self.ttl = greeting.granted
        self._proof = Proof(opened_at=greeting.opened_at, ttl=self.ttl)
        self._task = runtime.spawn(self._run, name="holdfast-session")

    @property
    def counted_from(self) -> float:
        """From when the session's timeout counts, by what a majority has confirmed."""
        return self._proof.counted_from

    def is_usable(self, now: float) -> bool:
        """Whether it may carry a claim; once it may not, it never will again."""
        if self._is_ending or self._is_dead or self.wire.is_over:
            return False
        proof = self._proof
        since = proof.counted_from if self.held else proof.heard_from
        if now >= trusted_until(sent_at=since, ttl=self.ttl):
            # For good: its leases were told so, and a late answer must not bring it back.
            self._is_dead = True
            self._kick.set()
            return False
        self._keep_running()
        return True

    def kick(self) -> None:
        """Let the background look anew at what is due; from any thread."""
        self._kick.set()

    def end(self) -> None:
        """Let nobody use it any more."""
        self._is_ending = True
        self._kick.set()
        self._ring_all()

    def close(self, *, goodbye: bool) -> None:
        """End it; without a goodbye its nodes stay until the server ends it."""
        self.end()
        if self._task is not None:
            self._task.join()
        self.wire.close(goodbye=goodbye, deadline=self._clock.now() + REQUEST)

    def leak(self) -> None:
        """Leave it to the parent process."""
        self._is_ending = True
        self.wire.leak()

    # -- the proof ---------------------------------------------------------------------

    def prove(self, *, deadline: float) -> bool:
        """Whether a majority has confirmed the session not long ago; asks for it if needed.

        All who ask at the same time share one request.
        """
        now = self._clock.now()
        if self._proof.is_due(now):
            proving = self._proving.fly(
                partial(self._confirm, now, deadline), deadline=deadline + LAST_WORD
            )
            if proving.was_ours and proving.is_known:
                proving.result()
        return now - self._proof.last_confirmed < self.ttl / 2

    def prove_for_grant(self, *, deadline: float) -> None:
        """Let a lease begin with a good part of its ttl; raises if nobody confirms it.

        Whoever has waited comes here by a read, and a member that is cut off answers those.
        """
        if self._proof.is_stale(self._clock.now()) and not self.prove(deadline=deadline):
            raise OutcomeUnknown(f"{self.wire.where} did not confirm the session in time")

    def confirmed(self, *, sent_at: float) -> None:
        """Know that a transaction which was asked for then has been answered."""
        with self._state:
            self._proof.confirmed(sent_at=sent_at, now=self._clock.now())

    def _confirm(self, sent_at: float, deadline: float) -> None:
        self._beat_by(requests.Confirm(self._address.root), sent_at, deadline)

    def _sync(self, sent_at: float, deadline: float) -> None:
        self._beat_by(requests.Sync(self._address.root), sent_at, deadline)

    def _beat_by(self, request: requests.Request, sent_at: float, deadline: float) -> None:
        try:
            [answer] = self.wire.ask(request, deadline=deadline)
        except OutcomeUnknown:
            self._be_impatient(sent_at)
            raise
        self._silent_since = None
        is_confirmed = isinstance(request, requests.Confirm)
        if isinstance(answer, list):
            [answer] = checked(answer, is_complete=True, where=self.wire.where)
        # Where somebody deleted our top node, or closed it to us, the no was a transaction too.
        if isinstance(answer, KazooException) and not (is_confirmed and isinstance(answer, A_NO)):
            raise refusals.refused(answer, where=self.wire.where, path=request.path) from answer
        with self._state:
            self._proof.beaten(sent_at=sent_at, now=self._clock.now(), is_confirmed=is_confirmed)

    def _be_impatient(self, sent_at: float) -> None:
        if self._silent_since is None:
            self._silent_since = sent_at
        if self._clock.now() - self._silent_since >= min(REQUEST, self.ttl / PATIENCE):
            self._silent_since = None
            self.wire.hang_up()

    # -- the background ----------------------------------------------------------------

    def _keep_running(self) -> None:
        """Let the background go on that somebody ended with all other tasks."""
        if self._task is None or self._task.is_alive():
            return
        # Where no thread is to be had, the next one who comes tries again.
        with self._state, suppress(RuntimeError):
            if not (self._task.is_alive() or self._is_ending or self._is_dead):
                self._task = runtime.spawn(self._run, name="holdfast-session")

    def _run(self) -> None:
        try:
            self._keep_alive()
        finally:
            if not (self._is_ending or self._is_dead):
                # Cancelled from outside: whoever relies on it looks, and lets it go on.
                self._ring_all()
                self._alarm()
        if not self._is_ending:
            self.end()
            self.wire.close(goodbye=True, deadline=self._clock.now() + REQUEST)

    def _keep_alive(self) -> None:
        idle_since = self._clock.now()
        while not self._is_ending:
            self._kick.clear()
            now = self._clock.now()
            if not self.is_usable(now):
                break
            if self.places or self.closing:
                idle_since = now
            elif now - idle_since > IDLE and self._is_dead_if_empty():
                break
            wake_at = self._act(now)
            runtime.wait_for(self._kick, deadline=wake_at, clock=self._clock)

    def _act(self, now: float) -> float:
        """Do what is due, and return when to look again."""
        try:
            if now >= self._proof.next_due:
                self._beat()
            self._end_min_holds(now)
        except (BackendError, OutcomeUnknown) as error:
            # The next one is soon; until then the older proof stands, and runs out by itself.
            _log.debug("heartbeat not answered: %s", error)
            return self._clock.now() + min(self.ttl / RETRIES, 1.0)
        except LockError as error:
            _log.warning("heartbeat refused: %s", error)
            return self._clock.now() + 1.0
        except Exception:  # noqa: BLE001 - it is logged with all that is known of it
            # Whatever it is, the leases go on: without heartbeats all of them would end.
            _log.exception("the session's heartbeat failed")
            return self._clock.now() + 1.0
        return min(self._proof.next_due, *self.closing.values(), now + IDLE)

    def _beat(self) -> None:
        now = self._clock.now()
        deadline = now + min(REQUEST, self.ttl / PATIENCE)
        if self.held:
            self.prove(deadline=deadline)
        else:
            self._sync(now, deadline)
        self._beats += 1
        for path, data in list(self.touching.items()):
            self.touch(path, data)
        if self._beats % SWEEP == 0:
            self._sweep()

    def _end_min_holds(self, now: float) -> None:
        for path in [path for path, until in list(self.closing.items()) if until <= now]:
            self.wire.ask(requests.Delete(path, -1), deadline=self._clock.now() + REQUEST)
            self.closing.pop(path, None)

    def _sweep(self) -> None:
        """Delete nodes of this session that stand for no claim of ours.

        A create that was not answered may have been executed after its withdrawal, by
        another member. The session lives on, so nobody else would ever delete it.
        """
        root = self._address.root
        [paths] = self.wire.ask(requests.GetEphemerals(root), deadline=self._clock.now() + REQUEST)
        if isinstance(paths, KazooException):
            return  # before ZooKeeper 3.6; a withdrawal looks for its own node in any case
        strangers = [path for path in paths if self._is_stranger(path)]
        if strangers:
            self.wire.ask(
                *(requests.Delete(path, -1) for path in strangers),
                deadline=self._clock.now() + REQUEST,
            )

    def _is_stranger(self, path: str) -> bool:
        name = path.rpartition("/")[2]
        try:
            node = node_of(name)
        except ValueError:
            return False
        place = self.places.get(node.claim)
        is_known = place is not None and place.node in (None, name)
        return not is_known and path not in self.closing

    def _is_dead_if_empty(self) -> bool:
        # In one step with `carry`: a claim that comes just now must find it alive or not at all.
        with self._state:
            self._is_dead = not self.places and not self.closing
        return self._is_dead

    # -- nodes -------------------------------------------------------------------------

    def carry(self, place: ClaimNode) -> None:
        """Be the session of a claim from now on; refuses if it may not be used any more."""
        with self._state:
            if self._is_ending or self._is_dead:
                raise refusals.ended(where=self.wire.where)
            self.places[place.claim.id] = place

    def touch(self, path: str, data: bytes) -> None:
        """Tell who watches a node that it was admitted; repeated until it is answered."""

        def heard(answer: Answer) -> None:
            if not isinstance(answer, KazooException) or isinstance(answer, NoNodeError):
                self.touching.pop(path, None)

        self.touching[path] = data
        self.wire.tell(requests.SetData(path, data, -1), heard)

    def forget(self, claim_id: str) -> None:
        """Know nothing of a claim any more."""
        self.places.pop(claim_id, None)
        self.held.discard(claim_id)
        self.wakeups.forget(claim_id)
        self.watches.forget(claim_id)

    # -- kazoo's thread ----------------------------------------------------------------

    def _heard(self, claim_id: str, path: str) -> None:
        place = self.places.get(claim_id)
        if place is not None and place.path == path:
            place.is_seen = False  # gone, touched, or unwatched: the next renewal looks
        else:
            self.wakeups.ring(claim_id)

    def _changed(self) -> None:
        greeting = self.wire.greeting
        if self.wire.is_connected:
            with self._state:
                self._proof.greeted(sent_at=greeting.sent_at, now=greeting.heard_at)
        if self._task is not None and greeting.granted < self.ttl:
            # Another member has other bounds: less than what the leases were told.
            self._is_dead = True
            self._alarm()
        self._kick.set()
        self._ring_all()
        if not self._is_ending and not self.wire.is_connected:
            self._alarm()

    def _ring_all(self) -> None:
        for claim_id in list(self.places):
            self.wakeups.ring(claim_id)


_log = logging.getLogger("holdfast")
