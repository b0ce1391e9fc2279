"""The clients of a run, seen from outside: processes that are started, struck and ended.

Each life of a client has a name and a diary of its own: whoever comes in the place of a killed one
knows nothing of what it held.
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

from lockfast.challenge.clients.diary import Reader, noted
from lockfast.challenge.clients.process import (
    ClientFailed,
    ClientProcess,
    end_clients,
    start_client,
)
from lockfast.challenge.recorded import Exit
from lockfast.runtime.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from lockfast.challenge.clients.order import Order
    from lockfast.challenge.history import Event

ENDING = 60.0
"""How long a client may take to end in order, besides what it waits for."""


@dataclass(slots=True)
class Life:
    """One process."""

    client: str
    process: ClientProcess
    reader: Reader
    log: Path
    last_words: Path
    is_first: bool
    was_killed: bool = False
    was_asked: bool = False
    """Whether it was told to end."""
    hung_for: float = 0.0
    has_begun: bool = False
    """Whether it has asked for anything."""
    was_answered: bool = False

    def close(self) -> None:
        """Look at it no more."""
        self.process.close()
        self.reader.close()


@dataclass(slots=True)
class Fleet:
    """So many clients, each by its number; all of them are gone when the block is over."""

    size: int
    folder: Path
    ordered: Callable[[int, str, Path, Path], Order]
    """Gives the order for a client: its number, its name, its diary, its last words."""
    ending: float = ENDING
    """How long they may take to end in order."""
    exits: list[Exit] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    """What all of them saw until now, each one's in its order."""
    was_struck: bool = False
    """Whether anything was done to them, or to what they ask; told by who does it."""
    _lives: list[Life] = field(default_factory=list)
    _number_of_lives: list[int] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._number_of_lives = [0] * self.size
        try:
            for number in range(self.size):
                self._lives.append(self._started(number))
        except BaseException:  # Ctrl-C too: nobody else knows of those that are there already
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        # All of them first, whatever is wrong with what one wrote; also one that was started and
        # whose start was interrupted.
        if any(self._number_of_lives):
            end_clients(str(self.folder))
        while self._lives:
            life = self._lives.pop()
            self._read(life)
            life.close()

    # -- looking ---------------------------------------------------------------------------

    def look(self) -> list[Event]:
        """Return what they wrote since; whoever is dead is followed by another."""
        new: list[Event] = []
        for number, life in enumerate(self._lives):
            is_over = life.process.poll() is not None
            new += self._read(life)  # after the poll, so that nothing is left unread
            if is_over:
                self._bury(life)
                self._lives[number] = self._started(number)
                life.close()
        return new

    def _read(self, life: Life) -> list[Event]:
        seen = life.reader.new()
        life.has_begun |= bool(seen)
        life.was_answered |= any(event.phase != "invoked" for event in seen)
        self.events += seen
        return seen

    @property
    def have_all_begun(self) -> bool:
        """Whether each has asked for something in its present life."""
        return all(life.has_begun for life in self._lives)

    @property
    def clients(self) -> list[str]:
        """The names by which their present lives are known."""
        return [life.client for life in self._lives]

    def number(self, client: str) -> int | None:
        """Return whose present life that is, if it is one."""
        clients = self.clients
        return clients.index(client) if client in clients else None

    def _bury(self, life: Life) -> None:
        # Once something has struck, who dies while it begins is judged, and ends nothing; so is
        # who is killed by a signal. Who ends well was told to, however closed the door was.
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
                in_use=figures.get("in_use"),
            )
        )

    # -- striking --------------------------------------------------------------------------

    def freeze(self, number: int) -> None:
        """Let it stand still, and come back when it does."""
        self._lives[number].process.freeze()

    def thaw(self, number: int) -> None:
        """Let it go on."""
        self._lives[number].process.send_signal(signal.SIGCONT)

    def kill(self, number: int) -> None:
        """End it as a crash would; the next look starts another."""
        life = self._lives[number]
        if life.process.poll() is None:
            life.was_killed = True
            life.process.kill()
            life.process.ended()

    def interrupt(self, number: int) -> None:
        """Send what Ctrl-C sends, but not to one that has yet to say what it makes of it."""
        life = self._lives[number]
        if life.has_begun:
            life.process.send_signal(signal.SIGINT)

    def use_up_descriptors(self, number: int) -> None:
        """Let it open nothing more, not even in the place of a connection that it loses.

        No limit is lower than that: it would also refuse to poll what it has.
        """
        pid = self._lives[number].process.pid
        with suppress(OSError):  # gone meanwhile
            there = {
                int(one.name): str(one.readlink()) for one in Path(f"/proc/{pid}/fd").iterdir()
            }
            most = next(one for one in count() if there.get(one, "socket").startswith("socket"))
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, _usual_limits()[1]))

    def give_descriptors_back(self, number: int) -> None:
        """Let it have as many as the run."""
        with suppress(ProcessLookupError):  # gone meanwhile; who follows it has them
            pid = self._lives[number].process.pid
            resource.prlimit(pid, resource.RLIMIT_NOFILE, _usual_limits())

    # -- ending ----------------------------------------------------------------------------

    def end(self) -> None:
        """Let all of them end in order; who does not is killed, and that is told as it was."""
        for number, life in enumerate(self._lives):
            life.process.send_signal(signal.SIGCONT)
            if life.has_begun:
                life.was_asked = True
                life.process.send_signal(signal.SIGTERM)
            else:  # it has yet to say what it makes of that
                self.kill(number)
        deadline = time.monotonic() + self.ending
        while self._lives:
            life = self._lives[0]
            if life.process.wait(max(0.0, deadline - time.monotonic())) is None:
                life.hung_for = self.ending
                life.process.kill()
            life.process.ended()
            self._read(life)
            self._bury(life)
            del self._lives[0]
            life.close()

    # -- starting --------------------------------------------------------------------------

    def _started(self, number: int) -> Life:
        life = self._number_of_lives[number]
        self._number_of_lives[number] += 1
        client = f"{number}.{life}" if life else f"{number}"
        diary, log = self.folder / f"{client}.jsonl", self.folder / f"{client}.log"
        last_words = self.folder / f"{client}.json"
        diary.touch()
        order = self.ordered(number, client, diary, last_words)
        process = start_client(order, log=log, fleet=str(self.folder))
        return Life(client, process, Reader(diary), log, last_words, is_first=life == 0)


def _usual_limits() -> tuple[int, int]:
    return resource.getrlimit(resource.RLIMIT_NOFILE)


def _end_of(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace").strip()[-2000:]
