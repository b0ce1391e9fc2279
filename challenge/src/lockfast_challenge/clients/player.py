"""The client's loop of acquire, work and release, and its signal handling."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

from lockfast.model import ALL
from lockfast_challenge.contender import NotGranted, as_held
from lockfast_challenge.outcome import WORKLOADS
from lockfast_challenge.resource import TooLate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from lockfast_challenge.clients.diary import Diary
    from lockfast_challenge.clients.fork_server import Order
    from lockfast_challenge.contender import Contender, HeldLock, SharingContender
    from lockfast_challenge.history import Phase
    from lockfast_challenge.resource import ResourceClient


# Signals of a client: SIGTERM ends the client cleanly, SIGINT interrupts it where that is allowed.

PR_SET_PDEATHSIG = 1


class ClientSignals:
    """The client's signal handlers; created once, in the main thread."""

    def __init__(self) -> None:
        self.should_end: bool = False
        self._is_interruptible = self._is_once = False
        signal.signal(signal.SIGTERM, self._end)
        signal.signal(signal.SIGINT, self._interrupt)

    @contextmanager
    def interruptible(self, *, once: bool = False) -> Iterator[None]:
        """Let SIGINT raise KeyboardInterrupt inside this block, while the lock works or cleans up.

        Outside this block SIGINT is ignored, since an interrupt there would only spoil the client's
        own diary. With `once`, which is for asyncio, the first SIGINT cancels and later ones are
        ignored.
        """
        self._is_once = once
        self._is_interruptible = True
        try:
            yield
        finally:
            self._is_interruptible = False

    def ignore_interrupts(self) -> None:
        """Ignore SIGINT for good; while Python shuts down, it would end the process otherwise."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def _end(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.should_end = True

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self._is_interruptible:
            self._is_interruptible = not self._is_once
            raise KeyboardInterrupt


def die_with(parent: int) -> None:
    """Have this process killed when the thread that started it ends in any way; Linux only."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:  # the parent ended before the call to prctl
        os._exit(1)


# What a client does in each turn: acquire, check, work, write, check, release.

T = TypeVar("T")

HASTY_FRACTION = 0.2
"""Fraction of turns with a short timeout, so that claims are withdrawn under every fault."""
BRIEF_SECONDS = 0.02
"""Longest work time of a brief turn, in seconds."""
WRITE_FRACTION = 0.4
"""Fraction of turns that take the write lock of a read-write lock."""


@dataclass(frozen=True, slots=True)
class PlayerTurn:
    """The random choices of one turn, with times in seconds."""

    name: str
    think_seconds: float
    wait_seconds: float
    work_seconds: float
    check_interval: float
    weight: int


class Player:
    """One client, which takes turns until SIGTERM."""

    def __init__(
        self,
        order: Order,
        contender: Contender,
        *,
        diary: Diary,
        signals: ClientSignals,
        resource: ResourceClient | None,
    ) -> None:
        self._order = order
        self._contender = contender
        self._diary = diary
        self._interruptible = partial(
            signals.interruptible, once=getattr(contender, "is_interrupted_once", False)
        )
        self._signals = signals
        self._resource = resource
        self._workload = WORKLOADS[order.workload]
        self._chance = random.Random(f"{order.seed} {order.client}")  # noqa: S311 - a seed must repeat

    def play(self, *, after_turn: Callable[[], None]) -> None:
        """Take turns until SIGTERM; nothing is held when this returns."""
        while not self._signals.should_end:
            self.take(self._draw_turn())
            after_turn()

    def take(self, turn: PlayerTurn) -> None:
        time.sleep(turn.think_seconds)
        held = self._acquire(turn)
        if held is None:
            return
        is_trusted = self._work(held, turn)
        self._release(held, turn, is_trusted=is_trusted)

    def _draw_turn(self) -> PlayerTurn:
        ttl, chance = self._order.ttl, self._chance
        is_long = chance.random() < self._workload.long
        is_hasty = chance.random() < HASTY_FRACTION
        is_brief = not is_long and chance.random() < self._workload.brief
        shortest, longest = (
            (0.5, self._workload.longest) if is_long else (0.0, self._workload.short)
        )
        work = ttl * chance.uniform(shortest, longest)
        if is_brief:
            work = BRIEF_SECONDS * chance.random()
        weight = 1
        if self._workload.kind == "read-write" and chance.random() < WRITE_FRACTION:
            weight = ALL
        return PlayerTurn(
            name=chance.choice(self._order.names),
            think_seconds=chance.uniform(0.0, 0.05 * ttl),
            wait_seconds=chance.uniform(0.0, ttl) if is_hasty else 1.0 + 3.0 * ttl,
            work_seconds=work,
            check_interval=chance.uniform(0.002, 0.02),
            weight=weight,
        )

    # -- the acts --------------------------------------------------------------------------

    def _acquire(self, turn: PlayerTurn) -> HeldLock | None:
        capacity = self._workload.capacity
        one = self._diary.begin("acquire", turn.name, weight=turn.weight, capacity=capacity)
        found: HeldLock | None = None
        try:
            with self._interruptible():
                found = self._request(turn)
        except KeyboardInterrupt:
            if found is None:
                one.end("unknown", reason="interrupted")
                return None
        except NotGranted as error:
            one.end("fail", reason=str(error))
            return None
        except Exception as error:  # noqa: BLE001 - whatever a lock raises else, nobody knows
            one.end("unknown", reason=_described(error))
            return None
        held = as_held(found)
        if held is None:
            one.end("fail", reason="it was not acquired")
            return None
        one.end("ok", token=held.token)
        return held

    def _request(self, turn: PlayerTurn) -> HeldLock:
        capacity = self._workload.capacity
        if capacity == 1:
            return self._contender.acquire(turn.name, timeout=turn.wait_seconds)
        shared = cast("SharingContender", self._contender)
        return shared.acquire_share(
            turn.name, weight=turn.weight, capacity=capacity, timeout=turn.wait_seconds
        )

    def _work(self, held: HeldLock, turn: PlayerTurn) -> bool:
        """Return whether the lease was still valid at the last check."""
        ends = time.monotonic() + turn.work_seconds
        if not self._check(held, turn):
            return False
        try:
            value = self._resource.read(token=held.token) if self._resource else 0
            while time.monotonic() < ends and not self._signals.should_end:
                time.sleep(turn.check_interval)
                if not self._check(held, turn):
                    return False
            if self._resource:
                self._write(self._resource, held, value)
        except TooLate:
            return True  # the resource has seen a later holder; the lease has yet to notice
        return self._check(held, turn)

    def _write(self, resource: ResourceClient, held: HeldLock, value: int | list[str]) -> None:
        hold, client = self._diary.hold, self._order.client
        more = [*value, f"{client}:{hold}"] if isinstance(value, list) else value + 1
        resource.write(more, client=client, hold=hold, token=held.token)

    def _check(self, held: HeldLock, turn: PlayerTurn) -> bool:
        """Check the lease, and record the lease's deadline if the lock has one."""
        one = self._diary.begin("check", turn.name)
        phase, reason = self._phase_of(held.check)
        one.end(phase, reason=reason, deadline=getattr(held, "deadline", None))
        return phase == "ok"

    def _release(self, held: HeldLock, turn: PlayerTurn, *, is_trusted: bool) -> None:
        """Release the lock even if the lease has ended, as the end of a `with` block does."""
        one = self._diary.begin("release", turn.name)
        phase, reason = self._phase_of(held.release)
        if phase == "ok" and not is_trusted:  # the lease had ended, so this proves no hold
            phase, reason = "fail", "it was over before"
        one.end(phase, reason=reason)

    def _phase_of(self, call: Callable[[], None]) -> tuple[Phase, str]:
        try:
            with self._interruptible():
                call()
        except NotGranted as error:
            return "fail", str(error)
        except KeyboardInterrupt:
            return "unknown", "interrupted"
        except Exception as error:  # noqa: BLE001 - as for an acquire
            return "unknown", _described(error)
        return "ok", ""


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
