"""Machines that can be frozen and whose clocks drift apart, on one loop of virtual time."""

from __future__ import annotations

import contextvars
import random
from typing import TYPE_CHECKING, Any, TypeVarTuple

from lockfast.runtime.clock import Clock
from lockfast.testing.clock import VirtualTimeLoop

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

Ts = TypeVarTuple("Ts")

_MACHINE: contextvars.ContextVar[Machine | None] = contextvars.ContextVar("machine", default=None)


class Machine:
    """The machine of one client, on which everything that the client starts runs too."""

    def __init__(self, loop: World, *, drift: float, seed: int) -> None:
        self.loop = loop
        self.clock: DriftingClock = DriftingClock(loop, drift=drift, seed=seed)
        self.frozen_until: float = 0.0
        self.deferred: list[Callable[[], None]] = []

    def context(self) -> contextvars.Context:
        """Return a new context for a task that is to run on this machine."""
        context = contextvars.Context()
        context.run(_MACHINE.set, self)
        return context

    def freeze(self, seconds: float) -> None:
        """Run nothing for this many seconds, while time passes everywhere; like SIGSTOP."""
        self.frozen_until = max(self.frozen_until, self.loop.time() + seconds)
        self.loop.call_later(seconds, self._thaw, context=contextvars.Context())

    def _thaw(self) -> None:
        if self.loop.time() < self.frozen_until:
            return  # frozen again meanwhile, for longer
        deferred, self.deferred = self.deferred, []
        for each in deferred:
            each()


class DriftingClock(Clock):
    """A clock that is fast or slow by a fixed rate, with a jitter that repeats for a seed."""

    def __init__(self, loop: World, *, drift: float, seed: int) -> None:
        self._loop = loop
        self._rate = 1.0 + drift
        self._random = random.Random(seed)  # noqa: S311 - a seed must repeat

    def now(self) -> float:
        """Return this machine's time."""
        return self._loop.time() * self._rate

    def jitter(self) -> float:
        """Return the next number of the seeded sequence."""
        return self._random.random()


class World(VirtualTimeLoop):
    """A loop that defers the callbacks of a frozen machine until the machine resumes."""

    def call_soon(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """Run the callback next, or when its machine resumes."""
        context = contextvars.copy_context() if context is None else context
        machine = context.get(_MACHINE)
        if machine is None:
            return super().call_soon(callback, *args, context=context)
        mine: list[asyncio.Handle] = []
        handle = super().call_soon(_on, machine, mine, callback, args, context, context=context)
        mine.append(handle)
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run the callback at that time, or when its machine resumes."""
        context = contextvars.copy_context() if context is None else context
        machine = context.get(_MACHINE)
        if machine is None:
            return super().call_at(when, callback, *args, context=context)
        mine: list[asyncio.Handle] = []
        handle = super().call_at(when, _on, machine, mine, callback, args, context, context=context)
        mine.append(handle)
        return handle


def _on(
    machine: Machine,
    mine: list[asyncio.Handle],
    callback: Callable[..., object],
    args: tuple[Any, ...],
    context: contextvars.Context,
) -> None:
    if machine.loop.time() >= machine.frozen_until:
        callback(*args)
        return

    def later() -> None:
        # A callback that came due while the machine was frozen may be cancelled by another callback
        # that runs first.
        machine.loop.call_soon(_unless_cancelled, mine, callback, args, context=context)

    machine.deferred.append(later)


def _unless_cancelled(
    mine: list[asyncio.Handle], callback: Callable[..., object], args: tuple[Any, ...]
) -> None:
    if not mine[0].cancelled():
        callback(*args)
