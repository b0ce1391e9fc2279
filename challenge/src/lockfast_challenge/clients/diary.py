"""One client's record of what it does and sees, which can be read while the client writes it.

Each line is in the file before the client continues, so a client that is killed at the next
instruction has recorded everything.
"""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

from lockfast.runtime.clock import Clock
from lockfast_challenge.history import HistoryEvent, read

if TYPE_CHECKING:
    from pathlib import Path

    from lockfast_challenge.history import Act, Phase


class Diary:
    """The diary of one client, which has one operation under way at a time."""

    def __init__(self, path: Path, *, client: str) -> None:
        self._client = client
        self._file = path.open("ab", buffering=0)
        self._numbers = itertools.count(1)
        self._hold = 0

    def begin(self, act: Act, name: str, *, weight: int = 1, capacity: int = 1) -> UnderWay:
        """Record that an operation is being requested; return the object that records its reply."""
        number = next(self._numbers)
        if act == "acquire":
            self._hold = number
        invoked = HistoryEvent(
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
        """The number of the client's current or last hold."""
        return self._hold

    def close(self) -> None:
        self._file.close()

    def _write(self, event: HistoryEvent) -> None:
        self._file.write(event.line().encode() + b"\n")


class UnderWay:
    """One operation whose request was recorded."""

    def __init__(self, diary: Diary, invoked: HistoryEvent) -> None:
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
        """Record the outcome of the operation."""
        one = self._invoked
        answer = HistoryEvent(
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

    def new(self) -> list[HistoryEvent]:
        """Return the events since the last call; keep a partial line until it is complete."""
        *whole, self._begun = (self._begun + self._file.read()).split(b"\n")
        return list(read(line.decode() for line in whole))

    def close(self) -> None:
        self._file.close()


def note(path: Path, **figures: object) -> None:
    """Write figures, such as counts before and after, for `noted` to read."""
    path.write_text(json.dumps(figures), encoding="utf-8")


def noted(path: Path) -> dict[str, Any]:
    """Return the figures that `note` wrote; empty if the client did not get that far."""
    try:
        said: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):  # killed before or during the write
        return {}
    return said
