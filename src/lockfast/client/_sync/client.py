# Generated from src/lockfast/client/_async/client.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""What the locks of one client share: the backend, the identity, the holds, the watchdog."""

from __future__ import annotations

import os
import socket
import warnings
import weakref
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from lockfast.client._sync.cleanup import CleanupQueue
from lockfast.client._sync.dispatch import EventDispatcher
from lockfast.client._sync.handle import each
from lockfast.client._sync.hold import HoldRegistry
from lockfast.client._sync.watchdog import Watchdog
from lockfast.core.event_notes import ClientSnapshot
from lockfast.core.renewal import ENTRUSTED, OVER, RELEASING, SENT, life_of
from lockfast.errors import LockError, LocksClosed, OutcomeUnknown
from lockfast.model import Claim, Owner, Renewal, owner_in_context
from lockfast.runtime import fork
from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

    from lockfast.backends._sync.backend import Backend
    from lockfast.client._sync.acquisition import Acquisition
    from lockfast.client._sync.handle import Handle, ReleaseGuard
    from lockfast.client._sync.hold import Hold
    from lockfast.client._sync.lock import Lock
    from lockfast.core.renewal import Life
    from lockfast.events import LossReason
    from lockfast.options import ClientOptions, LockOptions
    from lockfast.runtime.clock import Clock

# Closes a client: notifies its leases, releases its holds, and closes the connection to the store.

CLOSE_GRACE_FRACTION = 0.1
"""The time that closing allows for releasing holds, as a fraction of a request timeout, if waiting
for acquires and blocks to end has used up the whole timeout.
"""


class Shutdown:
    """Closes a client once, however often `run` is called; each step may be repeated."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._closer: runtime.Context | None = None
        self.is_begun: bool = False
        self.is_shut: bool = False
        self._is_done = False
        self._defect: Exception | None = None

    def run(self) -> None:
        """Notify every lease of its loss, then release and close everything.

        A cancellation takes effect only after everything is closed. An interrupt ends the call
        early; another call then continues the work.
        """
        me = runtime.context()
        with self._client.state:
            # A second call continues the work only if it comes from the thread or task of the first
            # call (which was then interrupted), or if that thread or task has ended without
            # finishing.
            closer = self._closer
            if self._is_done or not (closer in (None, me) or runtime.has_ended(closer)):
                return
            self._closer = me
            self.is_begun = True
        runtime.shield(self._close())

    def _close(self) -> None:
        client = self._client
        with client.state:
            holds = client.holds.all()
            running_out = [one for one in client.watchdog.watched if one.is_left_to_ttl]
        for hold in (*holds, *running_out):
            hold.lose("closed")
        # All these requests share one deadline, so a store that does not answer delays closing only
        # once.
        deadline = client.request_deadline()
        client.cleanup_queue.hurry(deadline)
        self._step(partial(self._end_acquires, deadline))
        for hold in holds:
            for block in each(hold.blocks):
                block.finished(deadline=deadline, clock=client.clock)
        # If the waits above have used up the time, allow a little more, because the holds may be at
        # a server that does answer.
        deadline = max(deadline, client.clock.now() + client.request_timeout * CLOSE_GRACE_FRACTION)
        self._release_all(holds, deadline)
        if client.holds or client.asking():
            self._step(partial(client.backend.disown, client.id, deadline=deadline))
        self._step(client.watchdog.stop)
        client.clear_up()
        self._step(client.cleanup_queue.stop)
        self.is_shut = True
        self._step(client.backend.close)
        self._step(partial(client.dispatcher.stop, deadline=client.request_deadline()))
        # Set this only now, so that after an interrupt the next call to close does the rest.
        self._is_done = True
        if self._defect is not None:
            raise self._defect

    def _step(self, act: Callable[[], None]) -> None:
        """Run one step; a failure does not stop the next steps, as the `cleanup` module explains.

        A refusal by the store does not make closing fail, because our holds there end by their ttl.
        A defect is raised after all steps.
        """
        try:
            act()
        except LockError as error:
            self._client.logger.debug("closing without the store: %s", error)
        except Exception as error:
            self._client.logger.exception("a step of close() failed; the others are still done")
            self._defect = self._defect or error

    def _end_acquires(self, deadline: float) -> None:
        """Make every pending acquire leave the line and raise LocksClosed."""
        client = self._client
        while client.clock.now() < deadline:
            asking = client.asking()
            if not asking:
                return
            for one in asking:
                client.backend.wake(one.claim)
            runtime.wait_for(
                runtime.WakeEvent(), deadline=client.clock.now() + 0.005, clock=client.clock
            )

    def _release_all(self, holds: list[Hold], deadline: float) -> None:
        for hold in holds:
            if not self._release(hold, deadline) and self._client.clock.now() >= deadline:
                return

    def _release(self, hold: Hold, deadline: float) -> bool:
        """Release a hold unless it may be in use; return false if the store did not answer."""
        # Do not release a hold while a block under it still runs, or while another thread may use a
        # lease on it without a block. Such a hold ends by its ttl.
        client, owner = self._client, hold.context()
        may_be_used = not runtime.Block.can_interrupt and owner not in (None, runtime.context())
        if each(hold.blocks) or may_be_used or hold.hold_state is OVER:
            return True
        is_answered = True
        try:
            client.backend.release(hold.grant, deadline=deadline, tombstone=hold.needs_tombstone)
        except Exception as error:  # noqa: BLE001 - the other holds must still be released
            # The loss of the hold was reported already, and the hold ends by its ttl or with the
            # session.
            client.cleanup_queue.report_error(error, "release", hold.grant.claim)
            is_answered = False
        client.remove(hold)  # only now, so that an interrupted close can repeat the release
        return is_answered


ASKERS_MAX = 2048
"""Maximum number of threads or tasks whose owner text is cached."""


class Client:
    """The state behind a Locks; its locks and leases keep it alive."""

    def __init__(self, backend: Backend, options: ClientOptions) -> None:
        self.backend = backend
        self.life: Life = life_of(backend.capabilities)
        self.ttl: float = options.ttl
        self.fitting: LockOptions | None = None
        """The latest options that were checked and found suitable for this store."""
        self.warned_patterns: set[str] = set()
        """Patterns of names for which the warning about braces was issued."""
        self.clock: Clock = options.clock
        self.request_timeout: float = options.request_timeout
        self.loop_guard: runtime.LoopGuard = runtime.LoopGuard()
        self.dispatcher: EventDispatcher = EventDispatcher(
            backend, options, self.loop_guard, snapshot=self._snapshot
        )
        self.logger: logging.Logger = self.dispatcher.logger
        self.emit: Callable[..., None] = self.dispatcher.emit
        self.emit_claim: Callable[..., None] = self.dispatcher.emit_claim
        self.state: runtime.StateLock = runtime.StateLock()
        self.watchdog: Watchdog = Watchdog(self)
        self.cleanup_queue: CleanupQueue = CleanupQueue(self)
        self._label = options.label or ""
        self.holds: HoldRegistry = HoldRegistry(self.state)
        # The references are weak, so that an acquire that an interrupt ended is not kept alive. If
        # a new acquire gets the same address in memory, its entry replaces the old one.
        self._registered: dict[int, weakref.ref[Acquisition]] = {}
        self._cancellable: weakref.WeakSet[Acquisition] = weakref.WeakSet()
        self._left_behind: deque[Acquisition | ReleaseGuard] = deque()
        self.closing: Shutdown = Shutdown(self)
        self.earlier_ids: frozenset[str] = frozenset()
        """The ids of this client in the processes from which this process was forked."""
        self._set_identity()
        backend.attach(ttl=self.ttl, hurry=self.watchdog.hurry)
        self._bounds_requests = backend.bound_requests(self.request_timeout)
        fork.reset_in_child(self)
        runtime.close_at_exit(self)

    def _set_identity(self) -> None:
        self.id: str = new_id()
        self._owner = Owner(host=socket.gethostname(), pid=os.getpid(), label=self._label)
        self._as_stored: dict[int, tuple[str, str]] = {}
        self._stem = self._owner.stem
        self.owner_text: str = str(self._owner)
        self.dispatcher.owner = self.owner_text

    def __del__(self) -> None:
        closing: Shutdown | None = getattr(self, "closing", None)
        if closing is None or closing.is_begun or self.earlier_ids or not self.watchdog.was_used:
            return  # never completed, or closed, or the parent's, or never used
        message = (
            f"a client of {self.backend.location} was dropped without close(), so its connections "
            "stayed open until now; use `with`, or call close()"
        )
        try:
            # Pass no `source`, because a recorder of warnings would then keep the client alive,
            # with everything that the client references.
            warnings.warn(message, ResourceWarning, stacklevel=2)
        except ResourceWarning:
            # The application turns warnings into errors, and nobody could catch an error that a
            # finalizer raises.
            self.logger.debug(message)

    # -- every public call -------------------------------------------------------------

    def enter(self) -> None:
        """Refuse a closed client or a second loop; report the leases lost since the last call."""
        self.refuse_closed()
        self.loop_guard.check()
        if self._left_behind:
            self.watchdog.wake()
        self.watchdog.notice()

    def refuse_closed(self) -> None:
        """Raise if the client was closed."""
        if self.closing.is_begun:
            raise LocksClosed("this client was closed; make a new one")

    def register_acquire(self, one: Acquisition) -> None:
        """Enter, and record an acquire that is about to ask or wait, so that closing can end it."""
        if self._left_behind:
            self.watchdog.wake()
        if one.started >= self.watchdog.ends_first:
            self.watchdog.notice(one.started)
        with self.state:
            if self.closing.is_begun:
                self.refuse_closed()
            self._registered[id(one)] = weakref.ref(one)
            if one.cancel is not None:
                self._cancellable.add(one)
                self.watchdog.wake()

    def unregister_acquire(self, one: Acquisition) -> None:
        """Remove an acquire that has ended; unless it was granted, its claim has been withdrawn."""
        with self.state:
            self._registered.pop(id(one), None)
            if one.cancel is not None:
                self._cancellable.discard(one)

    def is_registered(self, one: Acquisition) -> bool:
        """Return whether this very acquire is asking or waiting."""
        ref = self._registered.get(id(one))
        return ref is not None and ref() is one

    def asking(self) -> list[Acquisition]:
        """Return the acquires that are asking or waiting."""
        with self.state:
            found = [ref() for ref in self._registered.values()]
        return [one for one in found if one is not None and not one.has_ended]

    def wake_cancelled(self) -> bool:
        """Wake the waiters whose wait was cancelled; return whether any waiter can be cancelled."""
        with self.state:
            waiting = list(self._cancellable)
        for one in waiting:
            if one.needs_wakeup():
                self.backend.wake(one.claim)
        return bool(waiting)

    def acquire_deadline(self, sent_at: float, *, ends_at: float) -> float:
        """Return the deadline of a request sent at `sent_at`; the acquire ends at `ends_at`."""
        latest = ends_at if self._bounds_requests else min(sent_at, ends_at)
        return latest + self.request_timeout

    def request_deadline(self) -> float:
        """Return the deadline of a request that is sent now."""
        return self.clock.now() + self.request_timeout

    def _snapshot(self) -> ClientSnapshot:
        """Return the current holds and waits, which reflect every event reported so far."""
        waiting = [one.claim for one in self.asking() if one.is_reported_waiting()]
        return ClientSnapshot(self.id, [one.grant.claim for one in self.holds.kept()], waiting)

    # -- claims and holds --------------------------------------------------------------

    def new_claim(self, lock: Lock, *, context: runtime.Context, queues: bool) -> Claim:
        """Return a claim with a new, unique id."""
        options = lock.options
        return Claim(
            os.urandom(16).hex(),  # like new_id(), but without the call
            lock.name,
            self.id,
            self.stored_owner(context),
            lock.weight,
            lock.capacity,
            options.ttl,
            options.owner,
            options.lock_delay,
            options.min_hold,
            queues,
        )

    def stored_owner(self, context: runtime.Context) -> str:
        """Return the owner text of a thread or task, in the form that stores keep."""
        # Compare the name too. A new thread or task may get the address of an old one that has
        # ended, but not the old one's name.
        name, asker = runtime.context_name(context), id(context)
        known = self._as_stored.get(asker)
        if known is not None and known[0] == name:
            return known[1]
        owner = owner_in_context(self._stem, name, f"{self.id[:12]}-{asker:x}")
        if len(self._as_stored) >= ASKERS_MAX:
            self._as_stored.clear()
        self._as_stored[asker] = (name, owner)
        return owner

    def add(self, hold: Hold) -> None:
        """Add the hold; raise if the client was closed during the acquire."""
        with self.state:
            if self.closing.is_begun:
                self.refuse_closed()
            self.holds.add(hold)
            self.watchdog.watch(hold)

    def remove(self, hold: Hold) -> None:
        """Forget the hold."""
        with self.state:
            self._drop(hold)

    def _drop(self, hold: Hold) -> None:
        self.watchdog.watched.pop(hold, None)
        self.holds.remove(hold)

    def left_behind(self, what: Acquisition | ReleaseGuard) -> None:
        """Let the background end what an interrupt left; takes no lock, callable from any thread.

        From now on, the handles left behind do not count as held by a thread or task. An acquire of
        the same name waits until the handles have ended: it does not re-enter their hold, and is
        not refused as a deadlock.
        """
        for handle in what.handles:
            handle.is_left_behind = True
        self._left_behind.append(what)
        self.watchdog.kick()

    def clear_up(self) -> None:
        """End what was left behind; called only in the background, where no interrupt strikes."""
        while self._left_behind:
            self._left_behind.popleft().clear_up()

    def leave(self, handle: Handle) -> None:
        """End a handle in the background, because no caller is left to end it."""
        hold = handle.hold
        with self.state:
            if handle.is_ended:
                return
            handle.end()
            if hold.has_handles(excluding=handle):
                handle.is_released = True
                hold.remove(handle)
                return
            if not hold.change_state(RELEASING):
                return
            self.remove(hold)
        self._release_later(hold)

    def end(self, hold: Hold) -> None:
        """Release a hold; raise LeaseLost if the hold had already ended."""
        # Do this in one step, because after an interrupt in the caller, the background may be about
        # to send the release too.
        with self.state:
            self._drop(hold)
            if self.closing.is_shut or hold.lost_by == "forked":
                raise hold.error()
            now = self.clock.now()
            # A release that was sent while the hold was trusted counts as clean no matter what a
            # retry returns, because the first request may have freed the lock.
            was_sent_before = hold.hold_state in SENT
            was_trusted = was_sent_before or (hold.is_trusted(now) and hold.change_state(RELEASING))
        deadline = now + self.request_timeout
        try:
            was_ours = self.backend.release(
                hold.grant, deadline=deadline, tombstone=hold.needs_tombstone
            )
        except LockError as error:
            self.dispatcher.failed("release", error, hold.grant.claim)
            self._release_later(hold)
            if not was_trusted:
                raise hold.error() from error
            name = hold.grant.claim.name
            if was_sent_before and not isinstance(error, OutcomeUnknown):
                # Only the repeat was refused. The first request may have freed the lock.
                raise OutcomeUnknown(
                    f"an earlier release of {name!r} was not answered, and its repeat failed: "
                    f"{error}",
                    name=name,
                    claim=hold.grant.claim.id,
                ) from error
            error.about(name)
            raise
        except BaseException:
            # An interrupt, too, leaves it unknown whether the lock was released.
            self._release_later(hold)
            raise
        if not was_trusted:
            hold.lose("expired")
            raise hold.error()
        # If a release from the background reached the store before ours, the hold was not lost.
        if not (was_ours or was_sent_before or hold.hold_state is ENTRUSTED):
            why = self._loss_reason(hold, answered_at=self.clock.now())
            hold.lose(why, after=RELEASING)
            raise hold.error()
        now = self.clock.now()
        hold.end(OVER, now)
        if now >= self.watchdog.ends_first:
            self.watchdog.notice(now)

    def _release_later(self, hold: Hold) -> None:
        hold.needs_tombstone = True
        is_clean = hold.end(ENTRUSTED, self.clock.now())
        self.cleanup_queue.release_later(hold.grant)
        if not is_clean:
            hold.lose("expired")  # sent too late; no effect if lost or entrusted before

    def _loss_reason(self, hold: Hold, *, answered_at: float) -> LossReason:
        # If the reply came after the deadline of the lease, the reason is "expired", however early
        # the release was sent.
        otherwise: LossReason = "taken" if answered_at < hold.until else "expired"
        # Renewing a lease that has ended changes nothing, but the reply shows whether the lease was
        # broken.
        try:
            [outcome] = self.backend.renew([hold.grant], deadline=self.request_deadline())
        except LockError:
            return otherwise
        return "broken" if outcome is Renewal.BROKEN else otherwise

    # -- closing -----------------------------------------------------------------------

    def close(self) -> None:
        """Notify every lease of its loss, then release and close everything."""
        self.closing.run()

    def after_fork_in_child(self) -> None:
        """Drop all holds and take a new identity, in the child."""
        holds = self.holds.all()
        asking = [one for ref in self._registered.values() if (one := ref()) is not None]
        self.state = runtime.StateLock()
        self.holds = HoldRegistry(self.state)
        self._registered = {}
        self._cancellable = weakref.WeakSet()
        self._left_behind.clear()
        self.watchdog.after_fork_in_child()
        self.cleanup_queue.after_fork_in_child()
        self.dispatcher.after_fork_in_child()
        self.loop_guard.forget()
        for hold in holds:
            hold.disown()
        self.earlier_ids |= {self.id}
        self._set_identity()
        for one in asking:
            one.restart_in_child()


def new_id() -> str:
    """Return 128 random bits from the system; a fork would copy the state of a Python generator."""
    return os.urandom(16).hex()
