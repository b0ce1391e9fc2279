"""What a finalizer or a signal handler asked for while its own thread was in the middle of a step.

The step cannot be entered twice, and it cannot go on before the handler has returned. So a
release or a withdrawal is done when the step has ended: nobody waits for its answer.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from lockfast.errors import LockError

if TYPE_CHECKING:
    from collections.abc import Callable


class Afterwards:
    """Done in order, once."""

    def __init__(self) -> None:
        self._acts: deque[Callable[[], object]] = deque()

    def add(self, act: Callable[[], object]) -> None:
        """Do it when the step under way has ended."""
        self._acts.append(act)

    def do(self) -> None:
        """Do what was put off; call it outside of every step."""
        if not self._acts:
            return
        # Theirs is a step too, at whose end we are called: it must find nothing to begin anew.
        acts, self._acts = self._acts, deque()
        try:
            while acts:
                try:
                    acts.popleft()()
                except LockError:
                    # Who asked has long gone. It is not renewed any more, so its ttl ends it.
                    continue
        finally:
            self._acts.extendleft(reversed(acts))  # an interrupt: the next step does the rest

    def clear(self) -> None:
        """Forget it all."""
        self._acts.clear()
