"""What one client does and sees, written down before it goes on, and read while it still writes.

The line is in the file when `write` returns: a client that is killed at the next instruction has
said all that it knew.
"""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING

from lockfast.challenge.history import Event, read
from lockfast.runtime.clock import Clock

if TYPE_CHECKING:
    from pathlib import Path

    from lockfast.challenge.history import Act, Phase


class Diary:
    """Of one client; it has one operation under way at a time."""

    def __init__(self, path: Path, *, client: str) -> None:
        self._client = client
        self._file = path.open("ab", buffering=0)
        self._numbers = itertools.count(1)
        self._hold = 0

    def begin(self, act: Act, name: str, *, weight: int = 1, capacity: int = 1) -> UnderWay:
        """Write that an operation is about to be asked for; return what takes its answer."""
        number = next(self._numbers)
        if act == "acquire":
            self._hold = number
        invoked = Event(
            at=Clock.now(),
            client=self._client,
            act=act,
            phase="invoked",
            number=number,
            hold=self._hold,
            name=name,
            weight=weight,
            capacity=capacity,
        )
        self._write(invoked)
        return UnderWay(self, invoked)

    @property
    def hold(self) -> int:
        """Which hold the client has, or had last."""
        return self._hold

    def close(self) -> None:
        """Write no further."""
        self._file.close()

    def _write(self, event: Event) -> None:
        self._file.write(event.line().encode() + b"\n")


class UnderWay:
    """One operation that was asked for."""

    def __init__(self, diary: Diary, invoked: Event) -> None:
        self._diary = diary
        self._invoked = invoked

    def end(
        self,
        phase: Phase,
        *,
        token: int | None = None,
        reason: str = "",
        deadline: float | None = None,
    ) -> None:
        """Write what came of it."""
        one = self._invoked
        answer = Event(
            at=Clock.now(),
            client=one.client,
            act=one.act,
            phase=phase,
            number=one.number,
            hold=one.hold,
            name=one.name,
            token=token,
            reason=reason,
            deadline=deadline,
        )
        self._diary._write(answer)  # noqa: SLF001 - the diary's own second half


class Reader:
    """Follows a diary while it is written."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._begun = b""

    def new(self) -> list[Event]:
        """Return what was written since; half a line is left until the rest has come."""
        *whole, self._begun = (self._begun + self._file.read()).split(b"\n")
        return list(read(line.decode() for line in whole))

    def close(self) -> None:
        """Read no further."""
        self._file.close()


def note(path: Path, **figures: tuple[int, int]) -> None:
    """Write pairs of figures, as how much of what there was first and last, for `noted`."""
    path.write_text(json.dumps(figures), encoding="utf-8")


def noted(path: Path) -> dict[str, tuple[int, int]]:
    """Return what somebody wrote, or nothing where nobody came to it."""
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):  # killed before, or while it wrote
        return {}
    return {what: (one, other) for what, (one, other) in said.items()}
