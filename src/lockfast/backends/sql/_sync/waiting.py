# Generated from src/lockfast/backends/sql/_async/waiting.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""How waiting claims are woken on a SQL server, by notifications and by probes."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockfast.backends.sql.verbs import WATCH_PREFIX, new_channel
from lockfast.backends.waiting._sync.inbox import CHECK_TIMEOUT_SECONDS, WaitPolicy
from lockfast.backends.waiting.schedule import CHECK_MIN_SECONDS, Checked, Timing
from lockfast.core.door import ADMITTED, CLOSING
from lockfast.core.naming import storage_key
from lockfast.errors import LockError
from lockfast.model import FOREVER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.backends.sql._sync.transport import SqlTransport
    from lockfast.backends.sql.statements import StoreStatements
    from lockfast.backends.waiting._sync.inbox import Inbox, Receiver
    from lockfast.backends.waiting.listener_threads import AnyListener
    from lockfast.core.door import Entry
    from lockfast.model import Claim, Held
    from lockfast.runtime.clock import Clock

# Where the server can notify, a transaction that admits a claim notifies the channel of the claim's
# client. In addition, one statement every few seconds probes all lines in which claims of ours
# wait. Only the client's first claim at each name is probed, to find out whether its entry still
# waits and when the entries inside end. So a probe costs one row per name however many claims wait.

SAFETY_POLL_SECONDS = 5.0
"""Probe interval of a line where releases notify, in seconds. The probes replace notifications that
are never sent because the holder or an admitted claim's client has died."""


@dataclass(slots=True)
class QueuedClaim:
    """A claim that waits in line, with its arrival there."""

    claim: Claim
    arrived: int


class SqlWaiting(WaitPolicy):
    """What SQL servers bring to an inbox; unless the server notifies us, probes only."""

    timing = Timing(
        steady_seconds=SAFETY_POLL_SECONDS,
        together_seconds=SAFETY_POLL_SECONDS / 2,
        names_per_check=500,
        subscribe_timeout=3.0,  # includes the proof that notifications arrive
        unsubscribed_poll_seconds=0.25,
    )

    def __init__(
        self,
        transport: SqlTransport[Any],
        statements: StoreStatements,
        clock: Clock,
        *,
        namespace: str,
        can_listen: bool,
    ) -> None:
        self._transport = transport
        self._statements = statements
        self._clock = clock
        self._namespace = namespace
        self.can_listen = can_listen

    def next_channel(self, channel: str, opened: int) -> str:
        # Keep one channel for life, because it is stored with the waiting claims.
        del opened
        return channel or new_channel()

    def subscribe(self, receiver: Receiver, channel: str, *, deadline: float) -> AnyListener:
        return self._transport.subscribe(
            channel, receiver.hear, deadline=deadline, begun=receiver.begun
        )

    def deliver(self, message: str, inbox: Inbox[QueuedClaim]) -> None:
        if message.startswith(WATCH_PREFIX):
            inbox.watch(message.removeprefix(WATCH_PREFIX))
        else:
            inbox.hear(message)

    def must_ask(self, waiter: QueuedClaim) -> bool:
        return waiter.claim.party is not None  # it may share a hold, which a probe can miss

    def check(self, due: Sequence[QueuedClaim], inbox: Inbox[QueuedClaim]) -> None:
        # Probe all lines with one statement.
        wanted = [
            {
                "number": number,
                "key": storage_key(self._namespace, one.claim.name).hex(),
                "id": one.claim.id,
                "arrived": one.arrived,
            }
            for number, one in enumerate(due)
        ]
        try:
            probe = self._statements.look(json.dumps(wanted))
            deadline = self._clock.now() + CHECK_TIMEOUT_SECONDS
            rows = self._transport.ask(probe, deadline=deadline)
        except LockError as error:
            # Wake the claims, which then ask the server and report the same error.
            _log.debug("a probe was not answered: %s", error)
            for one in due:
                inbox.checked(one, _asks_alone(one))
            return
        found = {number: rest for number, *rest in rows}
        now = self._clock.now()
        for number, one in enumerate(due):
            inbox.checked(one, _checked(one, found.get(number), now=now))


def _checked(one: QueuedClaim, row: list[Any] | None, *, now: float) -> Checked[QueuedClaim]:
    """Return what a row of the probe says; no row means that there is no such name."""
    if row is None:
        return Checked(asks=lambda _: True)
    is_waiting, is_head, ends_in, window_ends_in = row
    if not is_waiting or ends_in is None or ends_in <= 0:
        # If the claim does not wait, it was usually admitted, and our other claims still wait. If
        # it was turned away, our other claims were too, and the claim finds out when it asks. If
        # all our claims asked after each admission, they would do nothing else.
        return _asks_alone(one)
    return Checked(*_expected(ends_in, window_ends_in, is_head=bool(is_head), now=now))


def _asks_alone(one: QueuedClaim) -> Checked[QueuedClaim]:
    return Checked(asks=lambda other: other.claim.id == one.claim.id)


def expected_by(
    places: Sequence[Entry], held: Held, *, now: float, ours: float
) -> tuple[float, bool]:
    """Return when the line could move and whether the claim is its head, by the claim's answer.

    `now` is by the store's clock, and `ours` by the client's.
    """
    ends = [one.until - now for one in places if one.state <= CLOSING]
    windows = [one.until - now for one in places if one.state is ADMITTED]
    first_end, first_window_end = min(ends, default=None), min(windows, default=None)
    return _expected(first_end, first_window_end, is_head=held.place == 1, now=ours)


def _expected(
    ends_in: float | None, window_ends_in: float | None, *, is_head: bool, now: float
) -> tuple[float, bool]:
    # The first claim in line is probed when a hold ends. Any other claim is probed when an
    # admission window ends, because the admitted claim may not have answered.
    moment = ends_in if is_head else window_ends_in
    return (FOREVER if moment is None else now + max(CHECK_MIN_SECONDS, moment)), is_head


_log = logging.getLogger("lockfast")
