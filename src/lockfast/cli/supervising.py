"""Watching a command and its lease together, until the command has ended.

One loop that sleeps until a signal came, the command ended, or the watchdog told something
of the lease.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

from lockfast import LeaseLost
from lockfast.cli.ending import after_loss, while_trusted
from lockfast.cli.store import tell
from lockfast.cli.terminal import Terminal
from lockfast.runtime.clock import Clock

if TYPE_CHECKING:
    from lockfast import Lease
    from lockfast.cli.command import Command
    from lockfast.cli.guard import Guard
    from lockfast.cli.signals import Signals

ENDS = {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM}


class Supervision:
    """One command, from being let go to its end."""

    def __init__(
        self, command: Command, *, lease: Lease, guard: Guard, signals: Signals, is_quiet: bool
    ) -> None:
        self.was_stopped: bool = False
        """Whether the command was told to stop for the lease's sake."""
        self.loss: LeaseLost | None = None
        self._command = command
        self._lease = lease
        self._guard = guard
        self._signals = signals
        self._is_quiet = is_quiet
        self._terminal = Terminal()
        self._clock = Clock()
        self._ending = while_trusted(
            now=self._clock.now(), remaining=lease.remaining, ttl=lease.ttl
        )

    def run(self, *, token: int | None) -> int:
        """Let the command go, and return its exit code, or 128 + n if a signal ended it."""
        self._guard.kill_at(self._ending.kill_at)
        self._terminal.lend(self._command.pid)
        try:
            self._command.let_go(token=token)
            status = self._until_it_ends()
        finally:
            self._terminal.take_back()
        if self._guard.has_struck() and not self.was_stopped:
            # We were frozen ourselves, and may even have come back in time to renew.
            self.was_stopped = True
            self._tell(
                f"the lease on {self._lease.name!r} came too near its end while "
                "lockfast did not run; the command was killed"
            )
        if self.was_stopped:
            # What it started may have outlived it, and is no longer protected either.
            self._send(signal.SIGKILL)
        # The command has ended, so the group's number may be given to others from now on.
        self._guard.dismiss()
        code = os.waitstatus_to_exitcode(status)
        return code if code >= 0 else 128 - code

    def _until_it_ends(self) -> int:
        while True:
            self._look_at_lease()
            self._forward()
            status = self._command.poll()
            if status is not None and not os.WIFSTOPPED(status):
                return status
            if status is not None and self._terminal.is_lent:
                self._stop_too()
                continue
            moment = self._ending.kill_at if self.was_stopped else self._ending.term_at
            self._signals.wait(min(moment - self._clock.now(), self._clock.longest_sleep))

    def _look_at_lease(self) -> None:
        now, remaining, ttl = self._clock.now(), self._lease.remaining, self._lease.ttl
        if remaining > 0:
            self._ending = while_trusted(now=now, remaining=remaining, ttl=ttl)
        elif self.loss is None:
            self.loss = _loss_of(self._lease)
            self._ending = after_loss(self._ending, now=now, reason=self.loss.reason, ttl=ttl)
            self._tell(f"{self.loss}; stopping the command")
        self._guard.kill_at(self._ending.kill_at)
        if now >= self._ending.term_at and not self.was_stopped:
            self.was_stopped = True
            if self.loss is None:
                self._tell(
                    f"the lease on {self._lease.name!r} is not being renewed and ends in "
                    f"{remaining:.1f} s; stopping the command"
                )
            self._send(signal.SIGTERM)
        if now >= self._ending.kill_at:
            self._send(signal.SIGKILL)

    def _forward(self) -> None:
        while self._signals.came:
            self._send(self._signals.came.popleft())

    def _stop_too(self) -> None:
        """Stop as the command did (Ctrl-Z), and go on with it if the lease allows it."""
        self._terminal.take_back()
        os.kill(0, signal.SIGTSTP)
        # Here we are again, perhaps much later: the lease is looked at before the command
        # may move. A guard that saw the deadline pass has killed it already.
        self._look_at_lease()
        self._terminal.lend(self._command.pid)
        self._send(signal.SIGCONT)

    def _send(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._command.pid, number)
            if number in ENDS:
                # A command that is stopped would not see it before it goes on.
                os.killpg(self._command.pid, signal.SIGCONT)

    def _tell(self, sentence: str) -> None:
        if not self._is_quiet:
            tell(sentence)


def _loss_of(lease: Lease) -> LeaseLost:
    try:
        lease.check()
    except LeaseLost as loss:
        return loss
    return LeaseLost(name=lease.name, token=None, reason="expired")
