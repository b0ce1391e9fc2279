"""Watches the command and its lease together."""

from __future__ import annotations

import os
import select
import signal
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from lockfast import LeaseLost
from lockfast.cli.run_process import Terminal
from lockfast.cli.store import tell
from lockfast.core.renewal import at_risk_from, stop_margin_seconds
from lockfast.runtime.clock import Clock

if TYPE_CHECKING:
    from types import FrameType, TracebackType

    from lockfast import Lease
    from lockfast.cli.run_process import Command, Guard

# Compute the times at which the command gets SIGTERM and SIGKILL, with pure functions.

GONE_REASONS = frozenset({"broken", "taken", "session_ended"})
"""Reasons for a loss after which another client may already hold the lock."""


@dataclass(frozen=True, slots=True)
class StopTimes:
    """Two times on the local clock: SIGTERM is sent at the first, SIGKILL at the second."""

    term_at: float
    kill_at: float


def while_trusted(*, now: float, remaining: float, ttl: float) -> StopTimes:
    """Return the stop times that apply if the lease is never renewed again.

    A lease that is being renewed never reaches the last third of its ttl, so a single unanswered
    renewal does not disturb the command.
    """
    until = now + remaining
    return StopTimes(
        term_at=at_risk_from(until=until, ttl=ttl), kill_at=until - stop_margin_seconds(ttl)
    )


def after_loss(ending: StopTimes, *, now: float, reason: str, ttl: float) -> StopTimes:
    """Return the stop times for a command whose lease has just been lost.

    After max_hold the store keeps the lock closed until the ttl of the last renewal ends, and the
    command has until then to stop. If another client may already hold the lock, the command has
    hardly any time.
    """
    kill_at = (
        min(ending.kill_at, now + stop_margin_seconds(ttl))
        if reason in GONE_REASONS
        else ending.kill_at
    )
    return StopTimes(term_at=min(ending.term_at, now), kill_at=kill_at)


# Signals sent to `lockfast run` end its wait for the lock, or are forwarded to the command.

FORWARDED = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
)


class Signalled(BaseException):
    """A signal arrived during the wait for the lock; `number` is the signal's number."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Signals:
    """Collects the signals that arrive, and lets the supervision wait for them.

    Before `hold_back` is called, a signal is raised as `Signalled`, so that the wait for the lock
    ends and leaves nothing behind. After the call, signals are queued until they can be forwarded.
    Python swallows exceptions that are raised inside a finalizer. So this object is also passed as
    `cancel` to the acquire, and `is_set` ends the wait if the exception was swallowed.
    """

    def __init__(self) -> None:
        self.pending: deque[int] = deque()
        self._raises = True
        self._raised: int | None = None
        self._before: dict[int, object] = {}
        self._wakeup_reader, self._wakeup_writer = os.pipe()
        self._poll = select.poll()

    def __enter__(self) -> Self:
        for end in (self._wakeup_reader, self._wakeup_writer):
            os.set_blocking(end, False)
        self._poll.register(self._wakeup_reader, select.POLLIN)
        signal.set_wakeup_fd(self._wakeup_writer, warn_on_full_buffer=False)
        for number in FORWARDED:
            # Signals that our caller ignores (nohup, a background job) stay ignored.
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._note)
        # This handler does nothing, but without one the end of the command would not wake `wait`.
        self._before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        signal.set_wakeup_fd(-1)
        os.close(self._wakeup_reader)
        os.close(self._wakeup_writer)

    def hold_back(self) -> None:
        """Queue signals from now on, instead of raising them."""
        self._raises = False

    def is_set(self) -> bool:
        """Return whether a signal was raised; if so, the wait for the lock ends."""
        return self._raised is not None

    def raise_again(self) -> None:
        """Raise the signal that ended the wait, if one did."""
        if self._raised is not None:
            raise Signalled(self._raised)

    def ring(self, _event: object = None) -> None:
        """Make `wait` return; may be called from any thread."""
        # If the pipe is full, its content wakes the reader all the same. If it is closed, no reader
        # has to be woken.
        with suppress(BlockingIOError, OSError):
            os.write(self._wakeup_writer, b"\0")

    def wait(self, seconds: float) -> None:
        """Wait for a signal or a call of `ring`, at most this many seconds."""
        if self._poll.poll(max(0.0, seconds) * 1000):
            with suppress(BlockingIOError):
                while os.read(self._wakeup_reader, 4096):
                    pass

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self._raises:
            # Raise only once, because a second signal must not interrupt the withdrawal of the
            # claim.
            self._raises, self._raised = False, number
            raise Signalled(number)
        self.pending.append(number)


# Watches a command and its lease together, until the command has ended.
#
# A single loop sleeps until a signal arrives, the command ends, the watchdog reports an event, or
# the next stop time is reached.

ENDS = {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM}


class Supervision:
    """One command, from its start to its end."""

    def __init__(
        self, command: Command, *, lease: Lease, guard: Guard, signals: Signals, is_quiet: bool
    ) -> None:
        self.was_stopped: bool = False
        """Whether the command was stopped because of its lease."""
        self.loss: LeaseLost | None = None
        self._command = command
        self._lease = lease
        self._guard = guard
        self._signals = signals
        self._is_quiet = is_quiet
        self._terminal = Terminal()
        self._clock = Clock()
        self._stop_times = while_trusted(
            now=self._clock.now(), remaining=lease.remaining, ttl=lease.ttl
        )

    def run(self, *, token: int | None) -> int:
        """Start the command, and return its exit code, or 128 + n if signal n ended it."""
        self._guard.kill_at(self._stop_times.kill_at)
        self._terminal.lend(self._command.pid)
        try:
            self._command.start(token=token)
            status = self._until_it_ends()
        finally:
            self._terminal.take_back()
        if self._guard.has_struck() and not self.was_stopped:
            # `lockfast run` itself was frozen. It may even have resumed in time to renew the lease.
            self.was_stopped = True
            self._report(
                f"the lease on {self._lease.name!r} came too near its end while "
                "lockfast did not run; the command was killed"
            )
        if self.was_stopped:
            # Processes that the command started may still run, and the lease no longer protects
            # them either.
            self._send(signal.SIGKILL)
        # The command has ended, so its process group id may be reused from now on.
        self._guard.dismiss()
        code = os.waitstatus_to_exitcode(status)
        return code if code >= 0 else 128 - code

    def _until_it_ends(self) -> int:
        while True:
            self._check_lease()
            self._forward()
            status = self._command.poll()
            if status is not None and not os.WIFSTOPPED(status):
                return status
            if status is not None and self._terminal.is_borrowed:
                self._stop_too()
                continue
            moment = self._stop_times.kill_at if self.was_stopped else self._stop_times.term_at
            self._signals.wait(min(moment - self._clock.now(), self._clock.longest_sleep))

    def _check_lease(self) -> None:
        now, remaining, ttl = self._clock.now(), self._lease.remaining, self._lease.ttl
        if remaining > 0:
            self._stop_times = while_trusted(now=now, remaining=remaining, ttl=ttl)
        elif self.loss is None:
            self.loss = _loss_of(self._lease)
            self._stop_times = after_loss(
                self._stop_times, now=now, reason=self.loss.reason, ttl=ttl
            )
            self._report(f"{self.loss}; stopping the command")
        self._guard.kill_at(self._stop_times.kill_at)
        if now >= self._stop_times.term_at and not self.was_stopped:
            self.was_stopped = True
            if self.loss is None:
                self._report(
                    f"the lease on {self._lease.name!r} is not being renewed and ends in "
                    f"{remaining:.1f} s; stopping the command"
                )
            self._send(signal.SIGTERM)
        if now >= self._stop_times.kill_at:
            self._send(signal.SIGKILL)

    def _forward(self) -> None:
        while self._signals.pending:
            self._send(self._signals.pending.popleft())

    def _stop_too(self) -> None:
        """Stop as the command did (Ctrl-Z); then check the lease, and resume the command."""
        self._terminal.take_back()
        os.kill(0, signal.SIGTSTP)
        # A long time may have passed before we were resumed, so check the lease before the command
        # continues. If the guard saw the deadline pass, it has already killed the command.
        self._check_lease()
        self._terminal.lend(self._command.pid)
        self._send(signal.SIGCONT)

    def _send(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._command.pid, number)
            if number in ENDS:
                # A stopped command would not see the signal until it is resumed.
                os.killpg(self._command.pid, signal.SIGCONT)

    def _report(self, sentence: str) -> None:
        if not self._is_quiet:
            tell(sentence)


def _loss_of(lease: Lease) -> LeaseLost:
    try:
        lease.check()
    except LeaseLost as loss:
        return loss
    return LeaseLost(name=lease.name, token=None, reason="expired")
