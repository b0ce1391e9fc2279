"""How far a run is: one line that changes on a terminal, a line now and then in a pipe."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

from lockfast.challenge.report.wording import many
from lockfast.cli.waiting import CLEAR, is_wanted
from lockfast.model import printable
from lockfast.observe.durations import duration

if TYPE_CHECKING:
    from typing import Self, TextIO

    from lockfast.challenge.running import Progress

EVERY = 10.0
"""How often a line is written where lines stay."""
FROM_THE_RUN = {"starting", "quiet", "ending"}


class Teller:
    """Tells on stderr how far a run is; what changes in place is wiped away at the end."""

    def __init__(self, *, seconds: float, stream: TextIO | None = None) -> None:
        self._seconds = seconds
        self._stream = sys.stderr if stream is None else stream
        self._is_live = is_wanted() if stream is None else False
        self._next = 0.0
        self._wrong: frozenset[str] = frozenset()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_live:
            self._write(CLEAR)

    def say(self, text: str) -> None:
        """Tell what goes on before there are figures."""
        self._write(f"{CLEAR}{text}" if self._is_live else f"lockfast: {text}\n")

    def __call__(self, now: Progress) -> None:
        """Tell it, unless it was told a moment ago and nothing new was found."""
        text = sentence(now, seconds=self._seconds)
        if self._is_live:
            # Cut and not wrapped: only one line can be wiped away.
            self._write(CLEAR + text[: shutil.get_terminal_size().columns - 1])
        elif now.seconds >= self._next or not now.wrong <= self._wrong:
            self._next = now.seconds + EVERY
            self._wrong = frozenset(now.wrong)
            self._write(f"lockfast: {text}\n")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def sentence(now: Progress, *, seconds: float) -> str:
    """Return how long still, what strikes, and the figures until now; what matters most first."""
    left = seconds - now.seconds
    still = f"{duration(left)} left" if left >= 1 else "nearly done"
    doing = now.doing if now.doing in FROM_THE_RUN else f"fault {printable(now.doing)}"
    wrong = f"found: {', '.join(sorted(now.wrong))}" if now.wrong else "nothing wrong"
    return f"{still}, {wrong}, {many(now.grants, 'grant')}; {doing}"
