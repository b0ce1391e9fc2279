# Generated from src/lockfast/client/_async/dispatch.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""Delivers events to the log and to hooks."""

from __future__ import annotations

import logging
import time
from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lockfast.core.event_notes import (
    LOG_LEVELS,
    NO_CLAIM,
    URGENT_EVENTS,
    EventNote,
    NoteSink,
    event_of,
    level_of,
    log_line,
    store_failure_of,
    store_of,
)
from lockfast.events import Event, Reconnected, StoreError
from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockfast.backends._sync.backend import Backend
    from lockfast.client._sync.lease import Lease
    from lockfast.core.event_notes import ClientSnapshot
    from lockfast.events import Hook, StoreRequest
    from lockfast.model import Claim
    from lockfast.options import ClientOptions
    from lockfast.runtime.clock import Clock

T = TypeVar("T")

# Hooks run outside of the calls whose events they receive.
#
# A hook is application code and may be slow. So it never runs in a call that acquires, releases or
# renews. Such a call queues a note, and one task or thread per hook delivers the notes in order.
# The task or thread ends a while after the last delivery.

HOOK_QUEUE_MAX = 10_000
"""Maximum number of events queued for one hook; further events are dropped, with a warning."""
HOOK_ROUND_SECONDS = 0.02
"""Pause between deliveries while many events arrive, in seconds. Waking a thread for each event
would cost more than most hooks themselves.
"""
HOOK_IDLE_SECONDS = 30.0
"""Time without events after which the task or thread ends, in seconds; it restarts when needed."""
HOOK_RECOUNT_SECONDS = 10.0
"""Interval at which a hook that keeps counts gets a fresh snapshot, in seconds. The snapshot
corrects the counts if an interrupt has lost an event.
"""


class HookQueue(Generic[T]):
    """Delivers events to one hook; the events may come from any thread."""

    def __init__(
        self,
        deliver: Callable[[deque[T]], None],
        *,
        catch_up: Callable[[], None] | None = None,
        what: str,
        logger: logging.Logger,
        home: runtime.LoopGuard,
    ) -> None:
        self._deliver = deliver
        self._catch_up = catch_up
        self._what = what
        self._logger = logger
        self._home = home
        self._state = runtime.StateLock()
        self._pending: deque[T] = deque()
        self._kick: runtime.WakeEvent | None = None
        self._ended: runtime.WakeEvent | None = None
        self._task: runtime.TasklessRunner | None = None
        self._needs_waking = True
        self._is_stopping = False
        self._is_shut = False
        self._dropped = 0
        self._counted_at = 0.0

    def tell(self, one: T, is_urgent: bool) -> None:  # noqa: FBT001 - at every acquire
        """Queue one item for delivery; never waits for the hook."""
        pending = self._pending
        if len(pending) >= HOOK_QUEUE_MAX:
            self._drop()
            return
        pending.append(one)
        if is_urgent or self._needs_waking:
            self._wake()

    def _drop(self) -> None:
        with self._state:
            self._dropped += 1
            is_first = self._dropped == 1
        if is_first:
            self._logger.warning(
                "%s is too slow: %d wait for it, and what happens now it will not hear of",
                self._what,
                HOOK_QUEUE_MAX,
            )

    def _wake(self) -> None:
        with self._state:
            if self._is_shut:
                self._pending.clear()
                return
            if self._task is not None and self._task.is_alive() and self._kick is not None:
                self._kick.set()
                # Clear the flag only after the wakeup, because an interrupt may prevent the wakeup.
                self._needs_waking = False
                return
            self._home.call(self._start)

    def _start(self) -> None:
        with self._state:
            if self._is_shut or (self._task is not None and self._task.is_alive()):
                return  # another thread started the task; it checks the queue before it sleeps
            self._kick, self._ended = kick, ended = runtime.WakeEvent(), runtime.WakeEvent()
            run = partial(self._run, kick, ended)
            try:
                self._task = runtime.spawn_taskless(run, name="lockfast-hooks")
            except RuntimeError as error:
                # No thread can be started right now. The next event tries again.
                self._logger.warning("%s has to wait: %s", self._what, error)

    def _run(self, kick: runtime.WakeEvent, ended: runtime.WakeEvent) -> None:
        try:
            self._needs_waking = False
            # An interrupted start can leave a run that is not recorded. That run ends here, once
            # the event of another run has replaced its own.
            while kick is self._kick:
                kick.clear()
                if self._pending:
                    self._deliver(self._pending)
                    self._send_snapshot_if_due(is_due=self._log_dropped() or self._is_stopping)
                    if not self._is_stopping:
                        kick.wait(HOOK_ROUND_SECONDS)
                elif not self._sleep_until_event(kick):
                    return
        finally:
            kick.clear()
            self._needs_waking = True
            ended.set()

    def _sleep_until_event(self, kick: runtime.WakeEvent) -> bool:
        """Sleep until there is something to deliver; return false if stopping or idle too long."""
        with self._state:  # not during `_wake`, which would clear the flag again
            self._needs_waking = True
        # Check the queue only now, because an event that was queued before the flag was set did not
        # wake this task or thread.
        if self._pending or (not self._is_stopping and kick.wait(HOOK_IDLE_SECONDS)):
            self._needs_waking = False
            return True
        self._send_snapshot_if_due(is_due=True)
        with self._state:
            if self._pending or kick is not self._kick:
                return True
            if not self._is_stopping:  # otherwise `stop` waits for the task
                self._task = None
            return False

    def _log_dropped(self) -> bool:
        """Log how many events were dropped; return whether there were any."""
        if not self._dropped:
            return False
        with self._state:
            dropped, self._dropped = self._dropped, 0
        self._logger.warning("%s has not heard of %d events", self._what, dropped)
        return True

    def _send_snapshot_if_due(self, *, is_due: bool) -> None:
        """Give the hook a fresh snapshot if `is_due`, or if the last snapshot is too old."""
        now = time.monotonic()
        if self._catch_up is not None and (
            is_due or now >= self._counted_at + HOOK_RECOUNT_SECONDS
        ):
            self._counted_at = now
            self._catch_up()

    def begin_stopping(self) -> None:
        """Make the background deliver all queued events at once and then end."""
        self._is_stopping = True
        if self._pending or self._task is not None:
            self._wake()

    def stop(self, *, deadline: float, clock: Clock) -> None:
        """Wait for the background to end, at most until the deadline; then deliver nothing more.

        Call `begin_stopping` first.
        """
        if self._pending:
            self._wake()  # queued after the background had ended
        if runtime.is_background():
            return  # a hook closes its own client; the other events are delivered after it returns
        ended, task = self._ended, self._task
        if task is None or ended is None:
            self._deliver(self._pending)  # no thread could be started, for example at exit
        elif runtime.wait_for(ended, deadline=deadline, clock=clock):
            task.join()
        # A hook that has not returned by now is not called again.
        self._is_shut, self._kick = True, None
        left = len(self._pending)
        self._pending.clear()
        if left:
            self._logger.warning("closed before %s has heard of %d events", self._what, left)

    def after_fork_in_child(self) -> None:
        """Start empty in the child, because the parent delivers the queued events."""
        self.__init__(  # type: ignore[misc]
            self._deliver,
            catch_up=self._catch_up,
            what=self._what,
            logger=self._logger,
            home=self._home,
        )


# Look up the logger here, once, and not for each client. If an interrupt strikes while `logging`
# looks up a logger, a lock in `logging` stays held, and every other thread waits for that lock for
# ever.
_log = logging.getLogger("lockfast")


# The events of a client, which go to the log at once, and to each hook in the background.


class EventDispatcher:
    """The single place where events are reported; it passes them to the log and to the hooks."""

    def __init__(
        self,
        backend: Backend,
        options: ClientOptions,
        home: runtime.LoopGuard,
        *,
        snapshot: Callable[[], ClientSnapshot],
    ) -> None:
        self.logger: logging.Logger = _log
        self.owner: str = ""
        self._backend = backend
        self._home = home
        self._store = store_of(backend)
        self._snapshot = snapshot
        self._clock: Clock = options.clock
        self._hooks = [(hook, self._queue_for(hook)) for hook in options.hooks]
        # Look these up once, because lookups would slow down every acquire.
        self._queues = [
            (delivery.tell, hook.capture if isinstance(hook, NoteSink) and hook.captures else None)
            for hook, delivery in self._hooks
        ]
        self._on_lost: HookQueue[tuple[Callable[[Any], object], Lease]] = HookQueue(
            self._call_each, what="a hook for lost leases", logger=self.logger, home=home
        )
        self.away: dict[str, float] = {}
        """For each server, the time at which requests began to fail."""

    def _queue_for(self, hook: Hook) -> HookQueue[EventNote]:
        runtime.refuse_hook(hook)
        what = f"the hook {hook!r}"
        if isinstance(hook, NoteSink):
            return HookQueue(
                partial(self._call_sink, hook),
                catch_up=partial(self._set_right, hook),
                what=what,
                logger=self.logger,
                home=self._home,
            )
        deliver = partial(self._call_hook, hook)
        return HookQueue(deliver, what=what, logger=self.logger, home=self._home)

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """The hooks that receive events."""
        return tuple(hook for hook, _ in self._hooks)

    # -- events ------------------------------------------------------------------------

    def emit(
        self, kind: type[Event], claim: Claim, token: int | None, facts: tuple[object, ...]
    ) -> None:
        """Report an event to the log and the hooks; the facts are the event's own fields."""
        is_logged, tells = self.logger.isEnabledFor(LOG_LEVELS[kind]), self._queues
        if not (is_logged or tells):
            return  # an uncontended acquire should not pay for events without a receiver
        at = time.time()
        if is_logged:
            note = EventNote(kind, claim, token, at, None, facts)
            self._write(event_of(note, owner=self.owner, store=self._store))
        for tell, capture in tells:
            captured = None if capture is None else capture()
            tell(EventNote(kind, claim, token, at, captured, facts), kind in URGENT_EVENTS)

    def emit_claim(self, kind: type[Event], claim: Claim, facts: tuple[object, ...]) -> None:
        """Report an event without a grant."""
        self.emit(kind, claim, None, facts)

    def lost(self, hook: Callable[[Any], object], lease: Lease) -> None:
        """Queue a call of a lock's `on_lost` hook with the lost lease."""
        self._on_lost.tell((hook, lease), True)

    # -- the store ---------------------------------------------------------------------

    def failed(self, request: StoreRequest, error: BaseException, claim: Claim | None) -> None:
        """Report a failed request, which concerned one claim or several."""
        reason = store_failure_of(error)
        if reason is None:
            return
        if reason in ("unavailable", "unknown"):
            server = self._backend.server_of(claim.name) if claim is not None else ""
            self.away.setdefault(server, self._clock.now())
        self.emit_claim(StoreError, claim or NO_CLAIM, (request, reason, str(error)))

    def answered(self, claim: Claim) -> None:
        """Report that the store answers again, if it did not answer before."""
        since = self.away.pop(self._backend.server_of(claim.name), None)
        since = self.away.pop("", since)
        if since is not None:
            self.emit_claim(Reconnected, claim, (self._clock.now() - since,))

    # -- delivery ----------------------------------------------------------------------

    def _write(self, event: Event) -> None:
        fields = {one: getattr(event, one) for one in event.__dataclass_fields__}
        extra = {"lockfast": {"event": type(event).__name__, **fields}}
        self.logger.log(level_of(event), "%s", log_line(event), extra=extra)

    def _call_hook(self, hook: Hook, notes: deque[EventNote]) -> None:
        with suppress(IndexError):  # a close that gave up waiting may have emptied the queue
            while notes:
                event = event_of(notes.popleft(), owner=self.owner, store=self._store)
                self._guarded(hook, event)

    def _call_sink(self, sink: NoteSink, notes: deque[EventNote]) -> None:
        some: list[EventNote] = []
        keep, take = some.append, notes.popleft
        with suppress(IndexError):  # as in `_call_hook`
            while notes:
                keep(take())
        self._guarded(partial(sink.take, owner=self.owner, store=self._store), some)

    def _set_right(self, sink: NoteSink) -> None:
        self._guarded(partial(sink.set_right, store=self._store), self._snapshot())

    def _call_each(self, calls: deque[tuple[Callable[[Any], object], Lease]]) -> None:
        with suppress(IndexError):  # as in `_call_hook`
            while calls:
                hook, lease = calls.popleft()
                self._guarded(hook, lease)

    def _guarded(self, hook: Callable[[Any], object], argument: object) -> None:
        """Call a hook of the application; a failure of the hook never harms a lease.

        A hook that raises SystemExit does no harm either; in a background thread, it would only end
        the deliveries to the hook.
        """
        try:
            runtime.called(hook, argument)
        except Exception:
            # The hook is application code, so any error that it raises is logged and ends here.
            self.logger.exception("a hook of the application failed: %r", hook)
        except BaseException:
            # This is SystemExit or the like. In a thread of the application it may be an interrupt,
            # which has to propagate.
            if not runtime.is_background():
                raise
            self.logger.exception(
                "a hook of the application tried to exit in the background, where that ends "
                "nothing; let it set an event, or send a signal to the process: %r",
                hook,
            )

    # -- closing -----------------------------------------------------------------------

    def stop(self, *, deadline: float) -> None:
        """Deliver the queued events, but not beyond the deadline; afterwards report nothing."""
        deliveries: list[HookQueue[Any]] = [
            *(delivery for _, delivery in self._hooks),
            self._on_lost,
        ]
        for one in deliveries:
            one.begin_stopping()  # begin with all hooks, because one hook may use up the deadline
        for one in deliveries:
            one.stop(deadline=deadline, clock=self._clock)

    def after_fork_in_child(self) -> None:
        """Start empty in the child, because the parent reports its own events."""
        self.away.clear()
        self._on_lost.after_fork_in_child()
        for _, delivery in self._hooks:
            delivery.after_fork_in_child()
