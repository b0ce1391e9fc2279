"""What a client tells, and to whom: the log at once, and each hook beside the work."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from lockfast._async.delivery import AsyncDelivery
from lockfast.core.telling import (
    LEVELS,
    URGENT,
    Sink,
    event_of,
    level_of,
    sentence,
    store_of,
    trouble_of,
)
from lockfast.events import Event, Reconnected, StoreError
from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable

    from lockfast._async.backend import AsyncBackend
    from lockfast._async.lease import AsyncLease
    from lockfast.core.telling import Note, Standing
    from lockfast.events import Hook, StoreRequest
    from lockfast.model import Claim
    from lockfast.options import ClientOptions
    from lockfast.runtime.clock import Clock

# Here, and not for each client: who is interrupted while `logging` looks for a logger leaves it
# locked, and every other thread of the program waits for that lock for ever.
_log = logging.getLogger("lockfast")


class AsyncTelling:
    """The one place of telling: what happens goes through here to the log and to the hooks."""

    def __init__(
        self,
        backend: AsyncBackend,
        options: ClientOptions,
        home: runtime.LoopGuard,
        *,
        standing: Callable[[], Standing],
    ) -> None:
        self.logger: logging.Logger = _log
        self.owner: str = ""
        self._backend = backend
        self._home = home
        self._store = store_of(backend)
        self._standing = standing
        self._clock: Clock = options.clock
        self._hooks = [(hook, self._delivery_to(hook)) for hook in options.hooks]
        # Looked up once: at every acquire each lookup is felt.
        self._tells = [
            (delivery.tell, hook.capture if isinstance(hook, Sink) and hook.captures else None)
            for hook, delivery in self._hooks
        ]
        self._on_lost: AsyncDelivery[tuple[Callable[[Any], object], AsyncLease]] = AsyncDelivery(
            self._call_each, what="a hook for lost leases", logger=self.logger, home=home
        )
        self.away: dict[str, float] = {}
        """Since when requests fail, by the server that is asked."""

    def _delivery_to(self, hook: Hook) -> AsyncDelivery[Note]:
        runtime.refuse_hook(hook)
        what = f"the hook {hook!r}"
        if isinstance(hook, Sink):
            return AsyncDelivery(
                partial(self._call_sink, hook),
                catch_up=partial(self._set_right, hook),
                what=what,
                logger=self.logger,
                home=self._home,
            )
        deliver = partial(self._call_hook, hook)
        return AsyncDelivery(deliver, what=what, logger=self.logger, home=self._home)

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """Who is told."""
        return tuple(hook for hook, _ in self._hooks)

    # -- what happens ------------------------------------------------------------------

    def emit(  # noqa: PLR0917 - at every acquire: nothing is packed, nothing is named
        self,
        kind: type[Event],
        claim: Claim | None,
        token: int | None,
        first: object = None,
        second: object = None,
        third: object = None,
    ) -> None:
        """Tell the log and the hooks of an event; the facts are its own fields."""
        is_logged, tells = self.logger.isEnabledFor(LEVELS[kind]), self._tells
        if not (is_logged or tells):
            return  # an uncontended cycle should not pay for what nobody hears
        note = (kind, claim, token, time.time(), None, first, second, third)
        if is_logged:
            self._write(event_of(note, owner=self.owner, store=self._store))
        for tell, capture in tells:
            told = note if capture is None else (*note[:4], capture(), first, second, third)
            tell(told, kind in URGENT)

    def emit_claim(self, kind: type[Event], claim: Claim | None, *facts: object) -> None:
        """Tell of a claim that has no grant, or of none at all."""
        self.emit(kind, claim, None, *facts)

    def lost(self, hook: Callable[[Any], object], lease: AsyncLease) -> None:
        """Call the hook of one lock with its lease, which was lost."""
        self._on_lost.tell((hook, lease), True)

    # -- the store ---------------------------------------------------------------------

    def failed(self, request: StoreRequest, error: BaseException, claim: Claim | None) -> None:
        """Tell that a request failed, about one claim or about several."""
        reason = trouble_of(error)
        if reason is None:
            return
        if reason in ("unavailable", "unknown"):
            server = self._backend.server_of(claim.name) if claim is not None else ""
            self.away.setdefault(server, self._clock.now())
        self.emit_claim(StoreError, claim, request, reason, str(error))

    def answered(self, claim: Claim) -> None:
        """Tell that the store answers again, if it did not before."""
        since = self.away.pop(self._backend.server_of(claim.name), None)
        since = self.away.pop("", since)
        if since is not None:
            self.emit_claim(Reconnected, claim, self._clock.now() - since)

    # -- who hears of it ---------------------------------------------------------------

    def _write(self, event: Event) -> None:
        fields = {one: getattr(event, one) for one in event.__dataclass_fields__}
        extra = {"lockfast": {"event": type(event).__name__, **fields}}
        self.logger.log(level_of(event), "%s", sentence(event), extra=extra)

    async def _call_hook(self, hook: Hook, notes: deque[Note]) -> None:
        with suppress(IndexError):  # somebody has closed, and waits no longer
            while notes:
                event = event_of(notes.popleft(), owner=self.owner, store=self._store)
                await self._guarded(hook, event)

    async def _call_sink(self, sink: Sink, notes: deque[Note]) -> None:
        some: list[Note] = []
        keep, take = some.append, notes.popleft
        with suppress(IndexError):  # as above
            while notes:
                keep(take())
        await self._guarded(partial(sink.take, owner=self.owner, store=self._store), some)

    async def _set_right(self, sink: Sink) -> None:
        await self._guarded(partial(sink.set_right, store=self._store), self._standing())

    async def _call_each(self, calls: deque[tuple[Callable[[Any], object], AsyncLease]]) -> None:
        with suppress(IndexError):  # as above
            while calls:
                hook, lease = calls.popleft()
                await self._guarded(hook, lease)

    async def _guarded(self, hook: Callable[[Any], object], argument: object) -> None:
        """Call a hook of the application; its failure never harms a lease.

        Nor does one that exits: in the background that would end the delivery to it, and, in
        threads, nothing else.
        """
        try:
            await runtime.called(hook, argument)
        except Exception:
            # Somebody else's code: whatever it raises is told, and ends here.
            self.logger.exception("a hook of the application failed: %r", hook)
        except BaseException:
            # SystemExit and the like. An interrupt strikes a thread of the application, and has
            # to get through there.
            if not runtime.is_background():
                raise
            self.logger.exception(
                "a hook of the application tried to exit in the background, where that ends "
                "nothing; let it set an event, or send a signal to the process: %r",
                hook,
            )

    # -- the end -----------------------------------------------------------------------

    async def stop(self, *, deadline: float) -> None:
        """Deliver what has happened, but not beyond the deadline; then tell nothing any more."""
        deliveries = [*(delivery for _, delivery in self._hooks), self._on_lost]
        for one in deliveries:
            one.begin_stopping()  # all of them first: one may take all the time there is
        for one in deliveries:
            await one.stop(deadline=deadline, clock=self._clock)

    def after_fork_in_child(self) -> None:
        """Start anew: what has happened in the parent is told there."""
        self.away.clear()
        self._on_lost.after_fork_in_child()
        for _, delivery in self._hooks:
            delivery.after_fork_in_child()
