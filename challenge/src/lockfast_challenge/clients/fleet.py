"""The clients of a run, seen from outside: processes that are started, struck and ended.

A client may have several lives. Each life is one process with its own name and diary, because the
replacement of a killed client does not know what its predecessor held.
"""

from __future__ import annotations

import resource
import signal
import time
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from lockfast.runtime.clock import Clock
from lockfast_challenge.clients.diary import Reader, noted
from lockfast_challenge.clients.process import (
    ClientFailed,
    ClientProcess,
    end_clients,
    start_client,
)
from lockfast_challenge.outcome import Exit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Self

    from lockfast_challenge.clients.fork_server import Order
    from lockfast_challenge.history import HistoryEvent

END_TIMEOUT_SECONDS = 60.0
"""How long a client may take to end cleanly, in seconds, in addition to its longest turn."""


@dataclass(slots=True)
class ClientLife:
    """One process of a client."""

    client: str
    process: ClientProcess
    reader: Reader
    log: Path
    last_words: Path
    is_first: bool
    was_killed: bool = False
    was_asked: bool = False
    """Whether this process was asked to end."""
    hung_for: float = 0.0
    has_begun: bool = False
    """Whether this process has made a request."""
    was_answered: bool = False

    def close(self) -> None:
        """Stop watching the process."""
        self.process.close()
        self.reader.close()


@dataclass(slots=True)
class Fleet:
    """The clients of a run, each with a number; all of them are gone when the block ends."""

    size: int
    folder: Path
    ordered: Callable[[int, str, Path, Path], Order]
    """Returns the order for a client, from its number, its name, its diary and its last words."""
    ending: float = END_TIMEOUT_SECONDS
    """How long the clients may take to end cleanly, in seconds."""
    exits: list[Exit] = field(default_factory=list)
    events: list[HistoryEvent] = field(default_factory=list)
    """The events of all clients so far; the events of any one client are in order."""
    was_struck: bool = False
    """Whether a fault has struck the clients or their servers; set by the run."""
    _lives: list[ClientLife] = field(default_factory=list)
    _number_of_lives: list[int] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._number_of_lives = [0] * self.size
        try:
            for number in range(self.size):
                self._lives.append(self._started(number))
        # Catch Ctrl-C too, because nothing else would end the clients started so far.
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        # End all clients, including one whose start was interrupted, before reading the diaries,
        # because reading may fail.
        if any(self._number_of_lives):
            end_clients(str(self.folder))
        while self._lives:
            life = self._lives.pop()
            self._read(life)
            life.close()

    # -- watching --------------------------------------------------------------------------

    def look(self, numbers: Iterable[int] | None = None) -> list[HistoryEvent]:
        """Return what these clients, or all of them, wrote since the last call.

        Each of them that has died is replaced.
        """
        new: list[HistoryEvent] = []
        for number in range(len(self._lives)) if numbers is None else numbers:
            life = self._lives[number]
            is_over = life.process.poll() is not None
            new += self._read(life)  # after the poll, so that no event is left unread
            if is_over:
                self._record_exit(life)
                self._lives[number] = self._started(number)
                life.close()
        return new

    def _read(self, life: ClientLife) -> list[HistoryEvent]:
        seen = life.reader.new()
        life.has_begun |= bool(seen)
        life.was_answered |= any(event.phase != "invoked" for event in seen)
        self.events += seen
        return seen

    def have_begun(self, numbers: Iterable[int]) -> bool:
        """Return whether the current lives of these clients have made a request."""
        return all(self._lives[number].has_begun for number in numbers)

    def clients_of(self, numbers: Iterable[int]) -> list[str]:
        """Return the names of the current lives of these clients."""
        return [self._lives[number].client for number in numbers]

    def _record_exit(self, life: ClientLife) -> None:
        # Before any fault has struck, a client that fails at its start ends the run. Afterwards its
        # death is judged like any other, and so is a death by a signal at any time. A client with
        # status 0 was asked to end, even if it never got a reply.
        cannot_begin = life.is_first and not life.was_answered and not self.was_struck
        status = life.process.ended()
        if cannot_begin and not life.was_killed and status > 0:
            raise ClientFailed(
                f"client {life.client} ended with status {status} before it was "
                f"answered anything: {_end_of(life.log) or 'it said nothing'}"
            )
        figures = noted(life.last_words)
        self.exits.append(
            Exit(
                client=life.client,
                at=Clock.now(),
                returncode=status,
                was_killed=life.was_killed,
                was_asked=life.was_asked,
                hung_for=life.hung_for,
                descriptors=figures.get("descriptors"),
                threads=figures.get("threads"),
                in_use=figures.get("in_use", ()),
                turns=figures.get("turns", 0),
            )
        )

    # -- striking --------------------------------------------------------------------------

    def freeze(self, number: int) -> None:
        """Stop a client and return when all its threads have stopped."""
        self._lives[number].process.freeze()

    def thaw(self, number: int) -> None:
        """Resume a stopped client."""
        self._lives[number].process.send_signal(signal.SIGCONT)

    def kill(self, number: int) -> None:
        """End a client as a crash would; the next `look` replaces it."""
        life = self._lives[number]
        if life.process.poll() is None:
            life.was_killed = True
            life.process.kill()
            life.process.ended()

    def interrupt(self, number: int) -> None:
        """Send SIGINT as Ctrl-C does, but only once the client has installed its signal handler."""
        life = self._lives[number]
        if life.has_begun:
            life.process.send_signal(signal.SIGINT)

    def exhaust_descriptors(self, number: int) -> None:
        """Keep a client from opening any descriptor, so that it cannot replace a lost connection.

        The limit is only as low as necessary, because with a lower limit the client could not poll
        either.
        """
        pid = self._lives[number].process.pid
        with suppress(OSError):  # the client has exited in the meantime
            there = {
                int(one.name): str(one.readlink()) for one in Path(f"/proc/{pid}/fd").iterdir()
            }
            most = next(one for one in count() if there.get(one, "socket").startswith("socket"))
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, _usual_limits()[1]))

    def restore_descriptors(self, number: int) -> None:
        """Give a client the same descriptor limit as the run."""
        # The client may have exited in the meantime; its replacement has the usual limit.
        with suppress(ProcessLookupError):
            pid = self._lives[number].process.pid
            resource.prlimit(pid, resource.RLIMIT_NOFILE, _usual_limits())

    # -- ending ----------------------------------------------------------------------------

    def end(self) -> None:
        """End all clients cleanly; kill any client that does not end in time, and record that."""
        for number, life in enumerate(self._lives):
            life.process.send_signal(signal.SIGCONT)
            if life.has_begun:
                life.was_asked = True
                life.process.send_signal(signal.SIGTERM)
            else:  # the client may not have its signal handler yet
                self.kill(number)
        deadline = time.monotonic() + self.ending
        while self._lives:
            life = self._lives[0]
            if life.process.wait(max(0.0, deadline - time.monotonic())) is None:
                life.hung_for = self.ending
                life.process.kill()
            life.process.ended()
            self._read(life)
            self._record_exit(life)
            del self._lives[0]
            life.close()

    # -- starting --------------------------------------------------------------------------

    def _started(self, number: int) -> ClientLife:
        life = self._number_of_lives[number]
        self._number_of_lives[number] += 1
        client = f"{number}.{life}" if life else f"{number}"
        diary, log = self.folder / f"{client}.jsonl", self.folder / f"{client}.log"
        last_words = self.folder / f"{client}.json"
        diary.touch()
        order = self.ordered(number, client, diary, last_words)
        process = start_client(order, log=log, fleet=str(self.folder))
        return ClientLife(client, process, Reader(diary), log, last_words, is_first=life == 0)


def number_of(client: str) -> int:
    """Return the number of the client to which this life belongs: 2 for the life 2.1."""
    return int(client.partition(".")[0])


def _usual_limits() -> tuple[int, int]:
    return resource.getrlimit(resource.RLIMIT_NOFILE)


def _end_of(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace").strip()[-2000:]
