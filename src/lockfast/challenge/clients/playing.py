"""What a client does, again and again: acquire, look, work, write, look, release."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

from lockfast.challenge.contender import Refused
from lockfast.challenge.resource import TooLate
from lockfast.challenge.workloads import WORKLOADS
from lockfast.model import ALL

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockfast.challenge.clients.diary import Diary
    from lockfast.challenge.clients.order import Order
    from lockfast.challenge.clients.signals import Signals
    from lockfast.challenge.contender import Contender, Held, SharingContender
    from lockfast.challenge.history import Phase
    from lockfast.challenge.resource import ResourceClient

T = TypeVar("T")

HASTY = 0.2
"""How many give up waiting soon, so that claims are withdrawn under every fault."""
WRITING = 0.4
"""How many of those that share a name want it for themselves."""


@dataclass(frozen=True, slots=True)
class Turn:
    """All that chance decides of one turn, in seconds."""

    name: str
    thinks: float
    waits: float
    works: float
    looks_every: float
    weight: int


class Player:
    """One client, until it is told to end."""

    def __init__(
        self,
        order: Order,
        contender: Contender,
        *,
        diary: Diary,
        signals: Signals,
        resource: ResourceClient | None,
    ) -> None:
        self._order = order
        self._contender = contender
        self._diary = diary
        self._let_in = partial(
            signals.let_in, once=getattr(contender, "is_interrupted_once", False)
        )
        self._signals = signals
        self._resource = resource
        self._workload = WORKLOADS[order.workload]
        self._chance = random.Random(f"{order.seed} {order.client}")  # noqa: S311 - a seed must repeat

    def play(self) -> None:
        """Return when it is told to end; nothing is held then."""
        while not self._signals.is_to_end:
            self.take(self._drawn())

    def take(self, turn: Turn) -> None:
        """Take one turn."""
        time.sleep(turn.thinks)
        held = self._acquire(turn)
        if held is None:
            return
        is_trusted = self._work(held, turn)
        self._release(held, turn, is_trusted=is_trusted)

    def _drawn(self) -> Turn:
        ttl, chance = self._order.ttl, self._chance
        is_long = chance.random() < self._workload.long
        is_hasty = chance.random() < HASTY
        shortest, longest = (
            (0.5, self._workload.longest) if is_long else (0.0, self._workload.short)
        )
        weight = 1
        if self._workload.kind == "read-write" and chance.random() < WRITING:
            weight = ALL
        return Turn(
            name=chance.choice(self._order.names),
            thinks=chance.uniform(0.0, 0.05 * ttl),
            waits=chance.uniform(0.0, ttl) if is_hasty else 1.0 + 3.0 * ttl,
            works=ttl * chance.uniform(shortest, longest),
            looks_every=chance.uniform(0.002, 0.02),
            weight=weight,
        )

    # -- the acts --------------------------------------------------------------------------

    def _acquire(self, turn: Turn) -> Held | None:
        capacity = self._workload.capacity
        one = self._diary.begin("acquire", turn.name, weight=turn.weight, capacity=capacity)
        held: Held | None = None
        try:
            with self._let_in():
                held = self._asked(turn)
        except KeyboardInterrupt:
            if held is None:
                one.end("unknown", reason="interrupted")
                return None
        except Refused as error:
            one.end("fail", reason=str(error))
            return None
        except Exception as error:  # noqa: BLE001 - whatever a lock raises else, nobody knows
            one.end("unknown", reason=_told(error))
            return None
        one.end("ok", token=held.token)
        return held

    def _asked(self, turn: Turn) -> Held:
        capacity = self._workload.capacity
        if capacity == 1:
            return self._contender.acquire(turn.name, timeout=turn.waits)
        shared = cast("SharingContender", self._contender)
        return shared.acquire_share(
            turn.name, weight=turn.weight, capacity=capacity, timeout=turn.waits
        )

    def _work(self, held: Held, turn: Turn) -> bool:
        """Return whether the lease was still good when the client last looked."""
        ends = time.monotonic() + turn.works
        if not self._look(held, turn):
            return False
        try:
            value = self._resource.read(token=held.token) if self._resource else 0
            while time.monotonic() < ends and not self._signals.is_to_end:
                time.sleep(turn.looks_every)
                if not self._look(held, turn):
                    return False
            if self._resource:
                self._write(self._resource, held, value)
        except TooLate:
            return True  # the resource saw a later holder: the lease has yet to find out
        return self._look(held, turn)

    def _write(self, resource: ResourceClient, held: Held, value: int | list[str]) -> None:
        hold, client = self._diary.hold, self._order.client
        more = [*value, f"{client}:{hold}"] if isinstance(value, list) else value + 1
        resource.write(more, client=client, hold=hold, token=held.token)

    def _look(self, held: Held, turn: Turn) -> bool:
        """Ask the lease itself, and note until when it says so, if it says that."""
        one = self._diary.begin("check", turn.name)
        phase, reason = self._came_of(held.check)
        one.end(phase, reason=reason, deadline=getattr(held, "deadline", None))
        return phase == "ok"

    def _release(self, held: Held, turn: Turn, *, is_trusted: bool) -> None:
        """Give it back, also when it is over, as leaving a block does."""
        one = self._diary.begin("release", turn.name)
        phase, reason = self._came_of(held.release)
        if phase == "ok" and not is_trusted:  # what was over has not been held since
            phase, reason = "fail", "it was over before"
        one.end(phase, reason=reason)

    def _came_of(self, call: Callable[[], None]) -> tuple[Phase, str]:
        try:
            with self._let_in():
                call()
        except Refused as error:
            return "fail", str(error)
        except KeyboardInterrupt:
            return "unknown", "interrupted"
        except Exception as error:  # noqa: BLE001 - as for an acquire
            return "unknown", _told(error)
        return "ok", ""


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
